"""Calls as data: one request, the pages of a list, the lines of a stream, or several requests in a row.

Nothing here does I/O. `operations.py` builds the calls; `client.py` and `async_client.py` make them.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from .errors import DragomanError

T = TypeVar("T")

#: The longest wait before a retry, whatever Retry-After says.
RETRY_WAIT_MAX_S = 30.0


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and how to read its answer."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether sending it twice has the same effect as sending it once.
    repeatable: bool = False
    #: A file to send instead of `body`.
    file: str | None = None
    read: Callable[[bytes], T] = json.loads

    def content(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body, ensure_ascii=False, allow_nan=False).encode()

    def sent_headers(self) -> dict[str, str]:
        kind = {} if self.body is None else {"content-type": "application/json"}
        return {**kind, **self.headers}


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list that comes in pages: `page` builds the call for one page, and `member` names the array of its entries."""

    page: Callable[[str | None], Call[dict[str, Any]]]
    member: str


@dataclass(frozen=True)
class Lines(Generic[T]):
    """A stream of lines of JSON."""

    call: Call[bytes]


@dataclass(frozen=True)
class Pause:
    """A step of a flow: wait."""

    seconds: float


#: Several requests in a row. A flow yields calls and pauses; the client sends it each answer, or throws the error into it.
Flow = Generator["Call[Any] | Pause", Any, T]


def ask(call: Call[T]) -> Flow[T]:
    """Makes one call within a flow."""
    answer: T = yield call
    return answer


def path(*parts: str) -> str:
    """The path of a route, with each part escaped: `path("collections", name)`.

    Refuses names that would lead to another route: HTTP clients remove `.` and `..`, escaped or not.
    """
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"a name or an id must be a string, got {part!r}")
        if part in ("", ".", ".."):
            raise ValueError(f"{part!r} cannot be a name or an id")
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def partial_path(file: str | Path) -> Path:
    """Where a download is written until it is complete: next to its file."""
    file = Path(file)
    return file.with_name(f"{file.name}.partial")


def given(**members: object) -> dict[str, Any]:
    """The members that are not None: a request to the API omits an optional member rather than sending null."""
    return {name: value for name, value in members.items() if value is not None}


def listed(name: str, texts: Sequence[str]) -> list[str]:
    """The texts as a list. A single string is a sequence of strings, too, but surely not what the caller means."""
    if isinstance(texts, str):
        raise TypeError(f"{name} must be a list of strings, got one string")
    return list(texts)


def get(*parts: str, **query: str | int | None) -> Call[Any]:
    return Call("GET", path(*parts), given(**query), repeatable=True)


def ask_by_post(body: Mapping[str, Any], *parts: str) -> Call[Any]:
    """A query that is sent as POST because of its size. It changes nothing."""
    return Call("POST", path(*parts), body=given(**body), repeatable=True)


def write(body: Mapping[str, Any], *parts: str, key: str | None = None, query: Mapping[str, str] | None = None) -> Call[Any]:
    """A POST with an idempotency key, so that it can be retried. Without `key`, the key is random."""
    headers = {"idempotency-key": key or str(uuid.uuid4())}
    return Call("POST", path(*parts), query or {}, body, headers, repeatable=True)


def delete(*parts: str, headers: Mapping[str, str] | None = None) -> Call[None]:
    return Call("DELETE", path(*parts), headers=headers or {}, repeatable=True, read=nothing)


def nothing(_body: bytes) -> None:
    return None


class Attempts:
    """Decides whether and when to retry a failed request."""

    def __init__(self, call: Call[Any], retries: int) -> None:
        self.call, self.left, self.wait_s = call, retries, 0.2
        #: Whether the answer to an earlier attempt was lost.
        self.lost = False

    def has_deleted(self, error: DragomanError) -> bool:
        """Whether there is nothing left to delete because an earlier attempt, whose answer was lost, has probably done it."""
        return self.lost and self.call.method == "DELETE" and error.status == 404

    def wait_after(self, error: DragomanError) -> float | None:
        """Seconds until the next attempt, or None when the error is final.

        A repeatable request is retried when the connection failed or broke, or when the server says that it is busy.
        A timeout is final: the caller said how long to wait.
        """
        busy = error.status in (429, 503) and error.retry_after_s is not None
        if self.left == 0 or not self.call.repeatable or not (busy or error.code == "unreachable"):
            return None
        # Many clients may have to wait for the same time. If they all came back at once, most would be refused again.
        wait_s = (error.retry_after_s or 0.0) + self.wait_s * random.uniform(0.5, 1.5)
        self.left, self.wait_s = self.left - 1, self.wait_s * 2
        self.lost |= error.code == "unreachable"
        return min(wait_s, RETRY_WAIT_MAX_S)


class LineSplitter:
    """Splits bytes only at line feeds: a JSON string may contain the line separators of Unicode unescaped."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        return [line for line in lines if line]

    def end(self) -> list[bytes]:
        return [self.rest] if self.rest else []
