"""Moments as whole seconds since 1970 inside the operator, as RFC 3339 text in the API."""

import datetime


def dump(seconds: int) -> str:
    """The API's text of a moment."""
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: object) -> int | None:
    """The moment in *text*; ``None`` where there is none that can be read."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return int(moment.timestamp()) if moment.tzinfo else None
