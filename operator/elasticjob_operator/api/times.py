"""Moments as whole seconds since 1970 inside the operator, as RFC 3339 text in the API."""

import datetime as dt

from elasticjob_rendezvous.round import lease


def dump(seconds: int) -> str:
    """The API's text of a moment."""
    return dt.datetime.fromtimestamp(seconds, tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def exact(seconds: float) -> str:
    """The API's text of a moment to the microsecond, where it wants that."""
    return dt.datetime.fromtimestamp(seconds, tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: object) -> int | None:
    """The moment in *text*; ``None`` where there is none that can be read, or that can't be written again."""
    if not isinstance(text, str):
        return None
    try:
        moment = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    seconds = int(moment.timestamp()) if moment.tzinfo else -1
    return seconds if 0 <= seconds <= lease.LATEST else None
