"""What goes wrong, as exceptions: the server's problems as it words them, and the few that the client has by itself."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .wire import DocumentResult, JobInfo


@dataclass(frozen=True)
class Violation:
    """One wrong place in a request: `pointer` into the body, or `parameter` of path, query or headers."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None

    @property
    def field(self) -> str | None:
        """The place, whichever way it is named: `/query`, `limit`."""
        return self.parameter if self.pointer is None else self.pointer


@dataclass(eq=False)
class DragomanError(Exception):
    """A request that failed. `code` is what programs switch on.

    The server's codes are a closed list (`/docs/errors` of a server explains them); `status` is the answer's. Three codes are the
    client's own, without a status: `unreachable`, `timeout`, and `bad_answer` for what no Dragoman says. A job that failed
    raises its own code, with `job` set.
    """

    code: str
    detail: str
    status: int | None = None
    violations: list[Violation] = field(default_factory=list)
    request_id: str | None = None
    retry_after_s: float | None = None
    #: Of an upsert of several batches: what became of the documents before those that this is about.
    results: list[DocumentResult] = field(default_factory=list)
    job: JobInfo | None = None

    def __str__(self) -> str:
        where = f" ({self.status})" if self.status else ""
        request = f" [request {self.request_id}]" if self.request_id else ""
        return f"{self.code}{where}: {self.detail}{request}"


def from_answer(status: int, headers: Any, body: bytes) -> DragomanError:
    """Reads a problem (RFC 9457), or an error in OpenAI's shape, which `/v1/embeddings` answers."""
    request_id = headers.get("x-request-id")
    wait = headers.get("retry-after", "")
    retry_after_s = float(wait) if wait.isdigit() else None
    try:
        problem = json.loads(body)
        if "error" in problem:
            said, places = problem["error"], []
            if said.get("param"):
                places = [{"parameter": said["param"], "detail": said["message"]}]
            problem = {"code": said["code"], "detail": said["message"], "errors": places}
        violations = [
            Violation(place["detail"], place.get("pointer"), place.get("parameter")) for place in problem.get("errors", [])
        ]
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, TypeError, KeyError, AttributeError):
        code, detail, violations = "bad_answer", f"status {status}, and no problem that can be read", []
    return DragomanError(code, detail, status, violations, request_id, retry_after_s)
