"""What a request to the API server can come to, other than its result. Callers name the ones that they expect."""

import json


class ApiError(Exception):
    """A request that failed. ``status`` is 0 where there was no answer; ``message`` is the server's own."""

    def __init__(self, status: int, message: str, *, reason: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"{status or 'no answer'}: {message}")
        self.status = status
        self.message = message
        self.reason = reason
        self.retry_after = retry_after


class NotFoundError(ApiError):
    """404 in the API server's own words: there is no such object."""


class ConflictError(ApiError):
    """409: the object has changed since it was read, or exists already. Read again."""


class ForbiddenError(ApiError):
    """403: a right is missing, a quota is used up, or the namespace is ending."""


class EndingError(ApiError):
    """403, because the namespace is being deleted: nothing can be made in it, and nothing needs to be."""


class RefusedError(ApiError):
    """400, 422: the object itself is wrong, and repeating won't help."""


class UnavailableError(ApiError):
    """429, 5xx, no answer, a late one, another's 404: what was done is unknown, so read again before repeating."""


_KINDS: dict[int, type[ApiError]] = {
    400: RefusedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    422: RefusedError,
    429: UnavailableError,
}
_SERVER_ERROR = 500
_ENDING = "NamespaceTerminating"


def from_response(status: int, body: bytes, retry_after: str | None) -> ApiError:
    """The error in a response. A body that is no Status object (a proxy's page) is quoted, shortened."""
    try:
        data = json.loads(body)
        message, reason = str(data["message"]), str(data.get("reason", ""))
        ending = any(c.get("reason") == _ENDING for c in (data.get("details") or {}).get("causes") or ())
    except (ValueError, KeyError, TypeError, AttributeError):
        message, reason, ending = body[:200].decode(errors="replace"), "", False
    kind = UnavailableError if status >= _SERVER_ERROR else EndingError if ending else _KINDS.get(status, ApiError)
    if kind is NotFoundError and reason != "NotFound":
        kind = UnavailableError  # somebody on the way knows no such page: that tells nothing about the object
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return kind(status, message, reason=reason, retry_after=seconds)
