"""Failures as exceptions: the server's own errors in its words, and the few that the client adds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .wire import DocumentResult, JobInfo


@dataclass(frozen=True)
class Violation:
    """One invalid place in a request: a `pointer` into the body, or a `parameter` of the path, the query or the headers."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None

    @property
    def field(self) -> str | None:
        """The pointer or the parameter, whichever is set: `/query`, `limit`."""
        return self.parameter if self.pointer is None else self.pointer


@dataclass(eq=False)
class DragomanError(Exception):
    """A request failed. Programs should check `code`.

    The server's codes are a closed list, which it explains at `/docs/errors`; `status` is the HTTP status. The client adds three
    codes without a status: `unreachable`, `timeout`, and `bad_answer` when the answer cannot be from Dragoman. A failed job
    raises its own code, with `job` set.
    """

    code: str
    detail: str
    status: int | None = None
    violations: list[Violation] = field(default_factory=list)
    request_id: str | None = None
    retry_after_s: float | None = None
    #: When an upsert of several batches fails: the results of the documents before the failed batch.
    results: list[DocumentResult] = field(default_factory=list)
    job: JobInfo | None = None

    def __str__(self) -> str:
        where = f" ({self.status})" if self.status else ""
        request = f" [request {self.request_id}]" if self.request_id else ""
        return f"{self.code}{where}: {self.detail}{request}"


def from_answer(status: int, headers: Any, body: bytes) -> DragomanError:
    """Reads a problem (RFC 9457), or an error in OpenAI's format, which `/v1/embeddings` uses."""
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
        code, detail, violations = "bad_answer", "the answer is from a proxy or another server, not from Dragoman", []
    return DragomanError(code, detail, status, violations, request_id, retry_after_s)
