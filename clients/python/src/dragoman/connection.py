"""What both clients share: the server's address, how to turn a call into a request, and how to read answers and failures."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import httpx

from .calls import Call
from .errors import DragomanError

T = TypeVar("T")


class Connection:
    """The server's address and the retries. The key is only in the headers of the connection."""

    def __init__(self, url: str, retries: int) -> None:
        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https") or parsed.userinfo or parsed.query or parsed.fragment:
            raise ValueError("url must be http(s)://HOST[:PORT][/PREFIX], without user, query or fragment")
        self.url, self.retries = str(parsed).rstrip("/"), retries

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _settings(self, api_key: str | None, timeout: float | None) -> dict[str, Any]:
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip()):
            raise ValueError("api_key must be printable ASCII characters")
        headers = {"user-agent": "dragoman-client-python"}
        if api_key is not None:
            headers["authorization"] = f"Bearer {api_key}"
        return {"timeout": timeout, "headers": headers}

    def _fault(self, error: httpx.TransportError) -> DragomanError:
        """The error for a failed connection. Connecting too slowly counts as `unreachable`, not as `timeout`."""
        late = isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout)
        return DragomanError("timeout" if late else "unreachable", f"{self.url}: {error or type(error).__name__}")

    def _request(self, http: httpx.Client | httpx.AsyncClient, call: Call[Any], content: Any) -> httpx.Request:
        if not call.path.startswith("/"):
            raise ValueError(f"the path must begin with a slash, got {call.path!r}")
        return http.build_request(
            call.method, self.url + call.path, params=call.query or None, content=content, headers=call.sent_headers()
        )


def read(call: Call[T], body: bytes) -> T:
    try:
        return call.read(body)
    except ValueError as error:
        raise DragomanError("bad_answer", f"the answer is not JSON: {error}") from error


def read_any(body: bytes) -> Any:
    """Reads the answer to `request`: JSON, nothing, or text such as lines of JSON."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode()


def generic(
    method: str, path: str, query: Mapping[str, str | int] | None, body: object, headers: Mapping[str, str] | None
) -> Call[Any]:
    headers = {name.lower(): value for name, value in (headers or {}).items()}
    repeatable = method.upper() in ("GET", "HEAD", "PUT", "DELETE") or "idempotency-key" in headers
    return Call(method.upper(), path, query or {}, body, headers, repeatable, read=read_any)


def named(method: Callable[..., Any], operation: Callable[..., Any]) -> None:
    """Gives a method the name, the docstring and the arguments of its operation, for `help` and editors."""
    method.__name__, method.__doc__ = operation.__name__, operation.__doc__
    method.__qualname__, method.__annotations__ = operation.__name__, operation.__annotations__
    signature = inspect.signature(operation)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(parameters=[this, *signature.parameters.values()])  # type: ignore[attr-defined]
