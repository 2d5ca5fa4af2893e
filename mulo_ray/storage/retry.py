"""Which failures of a store pass by themselves, and how often to try again.

The one retry layer: the filesystems' own are switched off, so that attempts can be counted. Knows no filesystem:
errors are told apart by class, errno, HTTP status and the words that stores use.
"""

import errno
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_PERMANENT = (PermissionError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
_TRANSIENT_ERRNOS = frozenset(
    getattr(errno, name)
    for name in (
        *("EIO", "EREMOTEIO", "EBUSY", "EAGAIN", "ETIMEDOUT", "ECONNRESET", "EPIPE"),
        *("ENETUNREACH", "EHOSTUNREACH", "ESTALE"),
    )
    if hasattr(errno, name)
)
# client libraries wrap sockets in classes of their own, which this module does not import
_TRANSIENT_CLASSES = frozenset(
    {"HTTPClientError", "EndpointConnectionError", "IncompleteRead", "ResponseParserError"}
    | {"ClientConnectionError", "ClientPayloadError"}
)
_DENIED = re.compile(
    r"AccessDenied|Forbidden|ExpiredToken|InvalidAccessKeyId|SignatureDoesNotMatch|NoCredentials", re.I
)
_TRANSIENT_WORDS = re.compile(
    r"(status|error|code)\W{1,3}(408|425|429|5\d\d)\b|\((408|425|429|5\d\d)\)"
    r"|slow ?down|too many requests|reduce your request rate|service ?unavailable"
    r"|internal ?error|request ?timeout|timed out|connection (was )?(reset|closed|aborted)|incomplete ?body"
    r"|bad ?digest|ConditionalRequestConflict|OperationAborted",
    re.I,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """At most `attempts` tries, none begun after `deadline_s`; waits double from `first_s` to `cap_s`, jittered."""

    attempts: int = 8
    first_s: float = 0.2
    cap_s: float = 8.0
    deadline_s: float = 120.0

    def wait_s(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt` (from 1): half fixed, half random."""
        longest: float = min(self.cap_s, self.first_s * 2.0 ** (attempt - 1))
        return longest * (0.5 + 0.5 * random.random())


def is_transient(error: BaseException) -> bool:
    """True when the same call may succeed a little later."""
    text = f"{type(error).__name__}: {error}"
    status = http_status(error)
    if isinstance(error, _PERMANENT) or status in (401, 403) or _DENIED.search(text):
        return False
    if status in (408, 409, 425, 429) or (status or 0) >= 500:
        return True
    names = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, TimeoutError | ConnectionError) or names & _TRANSIENT_CLASSES:
        return True
    if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRNOS:
        return True
    return _TRANSIENT_WORDS.search(text) is not None


def http_status(error: BaseException | None) -> int | None:
    """The HTTP status behind an error, as botocore, aiohttp and gcsfs keep it on it or on its cause."""
    while error is not None:
        response = getattr(error, "response", None)
        metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
        for value in (metadata.get("HTTPStatusCode"), getattr(error, "status", None), getattr(error, "code", None)):
            if isinstance(value, int) and 100 <= value < 600:
                return value
        error = error.__cause__
    return None


def with_retries(action: Callable[[], T], policy: RetryPolicy) -> T:
    """Call `action` until it succeeds; its last error is raised as it is."""
    began = time.monotonic()
    for attempt in range(1, policy.attempts + 1):
        try:
            return action()
        except Exception as error:
            late = time.monotonic() - began > policy.deadline_s
            if attempt == policy.attempts or late or not is_transient(error):
                raise
        time.sleep(policy.wait_s(attempt))
    raise AssertionError("a policy allows at least one attempt")
