"""What a call is, before anybody makes it: one request, pages of a list, lines of a stream, or several requests in a row.

Nothing here reads or writes. The operations in `operations.py` build these; `client.py` makes them, blocking or awaited.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from .errors import DragomanError

T = TypeVar("T")

#: Longest wait before a request is sent again, whatever Retry-After says.
RETRY_WAIT_MAX_S = 30.0


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and how its answer is read."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether sending it twice does what sending it once does.
    repeatable: bool = False
    #: A file instead of a body.
    file: str | None = None
    read: Callable[[bytes], T] = json.loads

    def content(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body, ensure_ascii=False, allow_nan=False).encode()

    def sent_headers(self) -> dict[str, str]:
        kind = {} if self.body is None else {"content-type": "application/json"}
        return {**kind, **self.headers}


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list that comes in pages: `page` is the call for one, `member` where its entries are."""

    page: Callable[[str | None], Call[dict[str, Any]]]
    member: str


@dataclass(frozen=True)
class Lines(Generic[T]):
    """A stream of lines of JSON."""

    call: Call[bytes]


@dataclass(frozen=True)
class Pause:
    """A step of a flow that waits."""

    seconds: float


#: Several requests in a row. A flow yields calls and pauses, and is sent the answers, or has their errors thrown in.
Flow = Generator["Call[Any] | Pause", Any, T]


def ask(call: Call[T]) -> Flow[T]:
    """Makes one call within a flow."""
    answer: T = yield call
    return answer


def path(*parts: str) -> str:
    """The path of a route, with what the caller names escaped: `path("collections", name)`.

    Refuses names that would make it the path of another route: HTTP clients take out `.` and `..`, escaped or not.
    """
    for part in parts:
        if part in ("", ".", ".."):
            raise ValueError(f"{part!r} cannot be a name or an id")
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def partial_path(file: str | Path) -> Path:
    """Where a download is written until it is complete: beside its file."""
    file = Path(file)
    return file.with_name(f"{file.name}.partial")


def given(**members: object) -> dict[str, Any]:
    """The members that are not None: the API knows optional members as left out, never as null."""
    return {name: value for name, value in members.items() if value is not None}


def get(*parts: str, **query: str | int | None) -> Call[Any]:
    return Call("GET", path(*parts), given(**query), repeatable=True)


def ask_by_post(body: Mapping[str, Any], *parts: str) -> Call[Any]:
    """A question that is sent as POST because of its size. It changes nothing."""
    return Call("POST", path(*parts), body=given(**body), repeatable=True)


def write(body: Mapping[str, Any], *parts: str, key: str | None = None, query: Mapping[str, str] | None = None) -> Call[Any]:
    """A POST that takes an idempotency key; one is made up when the caller has none. With it, it may be sent again."""
    headers = {"idempotency-key": key or str(uuid.uuid4())}
    return Call("POST", path(*parts), query or {}, body, headers, repeatable=True)


def delete(*parts: str, headers: Mapping[str, str] | None = None) -> Call[None]:
    return Call("DELETE", path(*parts), headers=headers or {}, repeatable=True, read=nothing)


def nothing(_body: bytes) -> None:
    return None


class Attempts:
    """Decides whether and when a request that failed is sent again."""

    def __init__(self, call: Call[Any], retries: int) -> None:
        self.call, self.left, self.wait_s = call, retries, 0.2

    def wait_after(self, error: DragomanError) -> float | None:
        """Seconds until the next attempt, or None when the error is final.

        Sent again is what may be repeated, when no connection was made or it broke, or when the server says that it
        has no room now. A timeout is final: the caller said how long to wait.
        """
        busy = error.status in (429, 503) and error.retry_after_s is not None
        if self.left == 0 or not self.call.repeatable or not (busy or error.code == "unreachable"):
            return None
        wait_s = max(error.retry_after_s or 0.0, self.wait_s * random.uniform(0.5, 1.5))
        self.left, self.wait_s = self.left - 1, self.wait_s * 2
        return min(wait_s, RETRY_WAIT_MAX_S)


class LineSplitter:
    """Cuts chunks of bytes at line feeds alone: a text within JSON may hold the line separators of Unicode as they are."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        return [line for line in lines if line]

    def end(self) -> list[bytes]:
        return [self.rest] if self.rest else []
