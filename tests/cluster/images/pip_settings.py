"""This machine's pip settings, lent to an image build and not left in the image.

Behind a proxy or a mirror, pip works on the host because of its settings; a build needs the same ones. They are written
to one file that is mounted while the build runs, together with the files and folders that they name.
"""

import configparser
import sys
from pathlib import Path

from cluster import running

CONFIG = "/etc/pip.conf"


def mounts(file: Path) -> list[str]:
    """Write the settings to a file, and return the volumes that lend them to a build: `host:container:ro`."""
    settings = parsed(running.run(sys.executable, "-m", "pip", "config", "list"))
    config = configparser.RawConfigParser()
    config["global"] = settings
    with file.open("w") as output:
        config.write(output)
    named = sorted({value for value in settings.values() if value.startswith("/") and Path(value).exists()})
    return [f"{file}:{CONFIG}:ro", *(f"{path}:{path}:ro" for path in named)]


def parsed(listing: str) -> dict[str, str]:
    """The settings in `pip config list`: its `global.`, `install.` and environment lines, the last of which wins."""
    settings: dict[str, str] = {}
    for line in listing.splitlines():
        name, equals, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if equals and section in ("global", "install", ":env:"):
            settings[option] = value.strip("'\"")
    return settings
