"""The command line: bring a cluster up or take it down, build the tools or the images, say how to reach a cluster."""

import argparse
import sys

from cluster import current, errors, packages, providers, tools
from cluster.images import building


def main(arguments: list[str] | None = None) -> int:
    """Carry out one command; what can go wrong is told in one line."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except errors.ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("up", _up, "start a cluster and print its kubeconfig's path"),
        ("down", _down, "take a cluster down; nothing of it stays"),
        ("env", _env, "print the shell lines that point kubectl and helm at a cluster"),
        ("tools", _tools, "build the pinned programs and print where they are"),
        ("images", _images, "build the images and print their names and digests"),
    ):
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=run)
        command.add_argument("--name", default="demo", help="the cluster's name (default: %(default)s)")
        command.add_argument("--nodes", type=int, default=3, help="how many nodes (default: %(default)s)")
        command.add_argument("--gpus", type=int, default=2, help="pretended GPUs a node (default: %(default)s)")
    return parser


def _up(options: argparse.Namespace) -> None:
    cluster = providers.chosen().up(options.name, nodes=options.nodes, gpus=options.gpus)
    cluster.shared_storage()
    print(cluster.kubeconfig)


def _down(options: argparse.Namespace) -> None:
    kind = providers.chosen()
    kind.stop(options.name)
    if kind is not current.CurrentCluster:
        print(f"cluster {options.name} is down, and nothing of it is left")


def _env(options: argparse.Namespace) -> None:
    cluster = providers.chosen().attach(options.name)
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    print(f'export PATH="{tools.path("kubectl").parent}:{tools.path("helm").parent}:$PATH"')


def _tools(options: argparse.Namespace) -> None:
    packages.ensure(packages.CONTROL_PLANE | packages.NODE | packages.POLICIES | packages.IMAGES)
    tools.ensure()
    for name in tools.PROGRAMS:
        print(tools.path(name))


def _images(options: argparse.Namespace) -> None:
    for image in building.images():
        print(f"{image.name} {image.digest}")


if __name__ == "__main__":
    sys.exit(main())
