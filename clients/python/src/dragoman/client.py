"""The synchronous client. It makes the calls that `operations.py` builds; `async_client.py` makes the same calls with `await`.

Each method binds an operation to a way of making its call: `search = _blocking(operations.search)`. So the arguments and the type
of the answer are written once, and type checkers see them on both clients.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Concatenate, ParamSpec, TypeVar

import httpx
from typing_extensions import Self

from . import operations, wire
from .calls import Attempts, Call, Flow, Lines, LineSplitter, Pages, Pause, partial_path
from .connection import Connection, generic, named, read
from .errors import DragomanError, from_answer

T = TypeVar("T")
P = ParamSpec("P")
Progress = Callable[[wire.JobInfo], object]

CHUNK_BYTES = 256 * 1024


def _blocking(operation: Callable[P, Call[T] | Flow[T]]) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._make(operation(*args, **kwargs))

    named(method, operation)
    return method


def _blocking_pages(operation: Callable[P, Pages[T]]) -> Callable[Concatenate[Client, P], Iterator[T]]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        pages, cursor = operation(*args, **kwargs), None
        while True:
            page = self._make(pages.page(cursor))
            yield from page[pages.member]
            if (cursor := page.get("next_cursor")) is None:
                return

    named(method, operation)
    return method


def _blocking_lines(operation: Callable[P, Lines[T]]) -> Callable[Concatenate[Client, P], Iterator[T]]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._lines(operation(*args, **kwargs))

    named(method, operation)
    return method


def _blocking_job(operation: Callable[P, Call[wire.JobInfo]]) -> Callable[Concatenate[Client, P], Job]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        return Job(self, self._make(operation(*args, **kwargs)))

    named(method, operation)
    return method


class Client(Connection):
    """The synchronous client. Close it, or use it in a `with`. Threads may share it."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:7700",
        *,
        api_key: str | None = None,
        timeout: float | None = 60.0,
        retries: int = 3,
        **httpx_options: Any,
    ) -> None:
        """A request ends after `timeout` seconds of silence. `httpx_options`, such as `proxy`, go to httpx.Client."""
        super().__init__(url, retries)
        self._http = httpx.Client(**self._settings(api_key, timeout), **httpx_options)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        json: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Makes any request, for operations that have no method here. Returns the value of the JSON answer, or its text."""
        return self._make(generic(method, path, query, json, headers))

    def _make(self, work: Call[T] | Flow[T]) -> T:
        if isinstance(work, Call):
            response = self._open(work)
            return read(work, response.content)
        answer: Any = None
        error: DragomanError | None = None
        while True:
            try:
                step = work.throw(error) if error else work.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer, error = None, None
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                continue
            try:
                answer = self._make(step)
            except DragomanError as failed:
                error = failed

    def _open(self, call: Call[Any], stream: bool = False) -> httpx.Response:
        """Sends a call until it succeeds or a retry cannot help. Reads the whole answer unless it is a stream."""
        attempts = Attempts(call, self.retries)
        while True:
            try:
                response = self._send(call, stream)
                if response.status_code < 300:
                    return response
                error = from_answer(response.status_code, response.headers, response.read())
                response.close()
                if attempts.has_deleted(error):
                    return httpx.Response(204)
            except httpx.TransportError as broken:
                error = self._fault(broken)
            wait_s = attempts.wait_after(error)
            if wait_s is None:
                raise error
            time.sleep(wait_s)

    def _send(self, call: Call[Any], stream: bool) -> httpx.Response:
        if call.file is None:
            return self._http.send(self._request(self._http, call, call.content()), stream=stream)
        with open(call.file, "rb") as file:
            return self._http.send(self._request(self._http, call, _chunks(file)), stream=stream)

    def _stream(self, call: Call[Any]) -> Iterator[bytes]:
        response = self._open(call, stream=True)
        try:
            yield from response.iter_bytes()
        except httpx.TransportError as broken:
            raise self._fault(broken) from broken
        finally:
            response.close()

    def _lines(self, lines: Lines[T]) -> Iterator[T]:
        splitter = LineSplitter()
        for chunk in self._stream(lines.call):
            yield from map(json.loads, splitter.feed(chunk))
        yield from map(json.loads, splitter.end())

    def import_file(
        self,
        collection: str,
        path: str | Path,
        *,
        progress: Progress | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        types: str | None = None,
    ) -> Job:
        """Imports an NDJSON, CSV or TSV file, compressed or not. `wait` calls `progress`.

        The file's name tells the format and the compression, unless `content_type` and `content_encoding` do.

        `types` gives the types of CSV and TSV columns: `year:int,published:date`.
        """
        call = operations.import_file(
            collection, str(path), content_type=content_type, content_encoding=content_encoding, types=types
        )
        return Job(self, self._make(call), progress)

    def download_snapshot(self, snapshot: str, path: str | Path) -> None:
        """Writes the archive of a snapshot to a file. The file appears only when it is complete."""
        partial = partial_path(path)
        try:
            with open(partial, "wb") as file:
                for chunk in self._stream(operations.download_snapshot(snapshot)):
                    file.write(chunk)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def upload_snapshot(self, snapshot: str, path: str | Path) -> wire.SnapshotInfo:
        """Uploads a downloaded archive, under its snapshot's id or another unused UUID. Then `restore_snapshot` restores it."""
        return self._make(operations.upload_snapshot(snapshot, str(path)))

    def get_job(self, job: str) -> Job:
        return Job(self, self._make(operations.get_job(job)))

    create_collection = _blocking(operations.create_collection)
    get_or_create_collection = _blocking(operations.get_or_create_collection)
    get_collection = _blocking(operations.get_collection)
    change_collection = _blocking(operations.change_collection)
    list_collections = _blocking_pages(operations.list_collections)
    delete_collection = _blocking(operations.delete_collection)
    put_alias = _blocking(operations.put_alias)
    list_aliases = _blocking_pages(operations.list_aliases)
    delete_alias = _blocking(operations.delete_alias)
    upsert = _blocking(operations.upsert)
    get_document = _blocking(operations.get_document)
    patch_document = _blocking(operations.patch_document)
    delete_document = _blocking(operations.delete_document)
    delete_documents = _blocking(operations.delete_documents)
    update_documents = _blocking(operations.update_documents)
    list_documents = _blocking_pages(operations.list_documents)
    count_documents = _blocking(operations.count_documents)
    count_facets = _blocking(operations.count_facets)
    search = _blocking(operations.search)
    search_batch = _blocking(operations.search_batch)
    recommend = _blocking(operations.recommend)
    export_documents = _blocking_lines(operations.export_documents)
    list_jobs = _blocking_pages(operations.list_jobs)
    create_snapshot = _blocking_job(operations.create_snapshot)
    list_snapshots = _blocking_pages(operations.list_snapshots)
    restore_snapshot = _blocking_job(operations.restore_snapshot)
    delete_snapshot = _blocking(operations.delete_snapshot)
    create_classifier = _blocking(operations.create_classifier)
    get_classifier = _blocking(operations.get_classifier)
    list_classifiers = _blocking_pages(operations.list_classifiers)
    train_classifier = _blocking_job(operations.train_classifier)
    predict = _blocking(operations.predict)
    evaluate_classifier = _blocking(operations.evaluate_classifier)
    apply_classifier = _blocking_job(operations.apply_classifier)
    delete_classifier = _blocking(operations.delete_classifier)
    embed = _blocking(operations.embed)
    detect_languages = _blocking(operations.detect_languages)
    compare_pairs = _blocking(operations.compare_pairs)
    compare_sets = _blocking(operations.compare_sets)
    mine_pairs = _blocking_job(operations.mine_pairs)
    find_duplicates = _blocking_job(operations.find_duplicates)
    list_models = _blocking(operations.list_models)


class Job:
    """Work that continues after the answer. `info` is the job's last known state."""

    def __init__(self, client: Client, info: wire.JobInfo, progress: Progress | None = None) -> None:
        self.client, self.info, self.progress = client, info, progress

    def __repr__(self) -> str:
        return f"Job({self.info['type']} {self.id}: {self.info['status']})"

    @property
    def id(self) -> str:
        return self.info["id"]

    def wait(self, timeout: float | None = None, progress: Progress | None = None) -> Self:
        """Waits until the job has succeeded. See `dragoman.operations.wait_for_job`."""
        self.info = self.client._make(operations.wait_for_job(self.id, timeout=timeout, progress=progress or self.progress))
        return self

    def refresh(self) -> Self:
        self.info = self.client._make(operations.get_job(self.id))
        return self

    def cancel(self) -> Self:
        self.info = self.client._make(operations.cancel_job(self.id))
        return self

    def results(self, status: operations.LineStatus | None = None) -> Iterator[wire.LineResult]:
        """The result of each line of an import."""
        return self.client._lines(operations.job_results(self.id, status=status))

    def pairs(self) -> Iterator[wire.MinedPair]:
        """The translation pairs that the job found, best first."""
        return self.client._lines(operations.job_pairs(self.id))

    def clusters(self) -> Iterator[wire.DuplicateCluster]:
        """The clusters of duplicates that the job found."""
        return self.client._lines(operations.job_clusters(self.id))


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(CHUNK_BYTES), b"")
