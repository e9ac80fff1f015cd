"""The asynchronous client, for asyncio and trio. Like `client.py`, it makes the calls that `operations.py` builds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio
import httpx
from typing_extensions import Self

from . import operations, wire
from .calls import Attempts, Call, Flow, Lines, LineSplitter, Pages, Pause, partial_path
from .client import CHUNK_BYTES, Progress
from .connection import Connection, generic, named, read
from .errors import DragomanError, from_answer

T = TypeVar("T")
P = ParamSpec("P")


def _awaited(operation: Callable[P, Call[T] | Flow[T]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._make(operation(*args, **kwargs))

    named(method, operation)
    return method


def _awaited_pages(operation: Callable[P, Pages[T]]) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        pages, cursor = operation(*args, **kwargs), None
        while True:
            page = await self._make(pages.page(cursor))
            for entry in page[pages.member]:
                yield entry
            if (cursor := page.get("next_cursor")) is None:
                return

    named(method, operation)
    return method


def _awaited_lines(operation: Callable[P, Lines[T]]) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._lines(operation(*args, **kwargs))

    named(method, operation)
    return method


def _awaited_job(operation: Callable[P, Call[wire.JobInfo]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[AsyncJob]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncJob:
        return AsyncJob(self, await self._make(operation(*args, **kwargs)))

    named(method, operation)
    return method


class AsyncClient(Connection):
    """The asynchronous client. Close it with `aclose`, or use it in an `async with`."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:7700",
        *,
        api_key: str | None = None,
        timeout: float | None = 60.0,
        retries: int = 3,
        **httpx_options: Any,
    ) -> None:
        """A request ends after `timeout` seconds of silence. `httpx_options`, such as `proxy`, go to httpx.AsyncClient."""
        super().__init__(url, retries)
        self._http = httpx.AsyncClient(**self._settings(api_key, timeout), **httpx_options)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        json: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Makes any request, for operations that have no method here. Returns the value of the JSON answer, or its text."""
        return await self._make(generic(method, path, query, json, headers))

    async def _make(self, work: Call[T] | Flow[T]) -> T:
        if isinstance(work, Call):
            response = await self._open(work)
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
                await anyio.sleep(step.seconds)
                continue
            try:
                answer = await self._make(step)
            except DragomanError as failed:
                error = failed

    async def _open(self, call: Call[Any], stream: bool = False) -> httpx.Response:
        """Sends a call until it succeeds or a retry cannot help. Reads the whole answer unless it is a stream."""
        attempts = Attempts(call, self.retries)
        while True:
            try:
                content = call.content() if call.file is None else _chunks(call.file)
                response = await self._http.send(self._request(self._http, call, content), stream=stream)
                if response.status_code < 300:
                    return response
                error = from_answer(response.status_code, response.headers, await response.aread())
                await response.aclose()
                if attempts.has_deleted(error):
                    return httpx.Response(204)
            except httpx.TransportError as broken:
                error = self._fault(broken)
            wait_s = attempts.wait_after(error)
            if wait_s is None:
                raise error
            await anyio.sleep(wait_s)

    async def _stream(self, call: Call[Any]) -> AsyncIterator[bytes]:
        response = await self._open(call, stream=True)
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except httpx.TransportError as broken:
            raise self._fault(broken) from broken
        finally:
            await response.aclose()

    async def _lines(self, lines: Lines[T]) -> AsyncIterator[T]:
        splitter = LineSplitter()
        async for chunk in self._stream(lines.call):
            for line in splitter.feed(chunk):
                yield json.loads(line)
        for line in splitter.end():
            yield json.loads(line)

    async def import_file(
        self,
        collection: str,
        path: str | Path,
        *,
        progress: Progress | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        types: str | None = None,
    ) -> AsyncJob:
        """Imports an NDJSON, CSV or TSV file, compressed or not. `wait` calls `progress`.

        The file's name tells the format and the compression, unless `content_type` and `content_encoding` do.

        `types` gives the types of CSV and TSV columns: `year:int,published:date`.
        """
        call = operations.import_file(
            collection, str(path), content_type=content_type, content_encoding=content_encoding, types=types
        )
        return AsyncJob(self, await self._make(call), progress)

    async def download_snapshot(self, snapshot: str, path: str | Path) -> None:
        """Writes the archive of a snapshot to a file. The file appears only when it is complete."""
        partial = anyio.Path(partial_path(path))
        try:
            async with await anyio.open_file(partial, "wb") as file:
                async for chunk in self._stream(operations.download_snapshot(snapshot)):
                    await file.write(chunk)
            await partial.replace(path)
        finally:
            await partial.unlink(missing_ok=True)

    async def upload_snapshot(self, snapshot: str, path: str | Path) -> wire.SnapshotInfo:
        """Uploads a downloaded archive, under its snapshot's id or another unused UUID. Then `restore_snapshot` restores it."""
        return await self._make(operations.upload_snapshot(snapshot, str(path)))

    async def get_job(self, job: str) -> AsyncJob:
        return AsyncJob(self, await self._make(operations.get_job(job)))

    create_collection = _awaited(operations.create_collection)
    get_or_create_collection = _awaited(operations.get_or_create_collection)
    get_collection = _awaited(operations.get_collection)
    change_collection = _awaited(operations.change_collection)
    list_collections = _awaited_pages(operations.list_collections)
    delete_collection = _awaited(operations.delete_collection)
    put_alias = _awaited(operations.put_alias)
    list_aliases = _awaited_pages(operations.list_aliases)
    delete_alias = _awaited(operations.delete_alias)
    upsert = _awaited(operations.upsert)
    get_document = _awaited(operations.get_document)
    patch_document = _awaited(operations.patch_document)
    delete_document = _awaited(operations.delete_document)
    delete_documents = _awaited(operations.delete_documents)
    update_documents = _awaited(operations.update_documents)
    list_documents = _awaited_pages(operations.list_documents)
    count_documents = _awaited(operations.count_documents)
    count_facets = _awaited(operations.count_facets)
    search = _awaited(operations.search)
    search_batch = _awaited(operations.search_batch)
    recommend = _awaited(operations.recommend)
    export_documents = _awaited_lines(operations.export_documents)
    list_jobs = _awaited_pages(operations.list_jobs)
    create_snapshot = _awaited_job(operations.create_snapshot)
    list_snapshots = _awaited_pages(operations.list_snapshots)
    restore_snapshot = _awaited_job(operations.restore_snapshot)
    delete_snapshot = _awaited(operations.delete_snapshot)
    create_classifier = _awaited(operations.create_classifier)
    get_classifier = _awaited(operations.get_classifier)
    list_classifiers = _awaited_pages(operations.list_classifiers)
    train_classifier = _awaited_job(operations.train_classifier)
    predict = _awaited(operations.predict)
    evaluate_classifier = _awaited(operations.evaluate_classifier)
    apply_classifier = _awaited_job(operations.apply_classifier)
    delete_classifier = _awaited(operations.delete_classifier)
    embed = _awaited(operations.embed)
    detect_languages = _awaited(operations.detect_languages)
    compare_pairs = _awaited(operations.compare_pairs)
    compare_sets = _awaited(operations.compare_sets)
    mine_pairs = _awaited_job(operations.mine_pairs)
    find_duplicates = _awaited_job(operations.find_duplicates)
    list_models = _awaited(operations.list_models)


class AsyncJob:
    """Work that continues after the answer. `info` is the job's last known state."""

    def __init__(self, client: AsyncClient, info: wire.JobInfo, progress: Progress | None = None) -> None:
        self.client, self.info, self.progress = client, info, progress

    def __repr__(self) -> str:
        return f"AsyncJob({self.info['type']} {self.id}: {self.info['status']})"

    @property
    def id(self) -> str:
        return self.info["id"]

    async def wait(self, timeout: float | None = None, progress: Progress | None = None) -> Self:
        """Waits until the job has succeeded. See `dragoman.operations.wait_for_job`."""
        flow = operations.wait_for_job(self.id, timeout=timeout, progress=progress or self.progress)
        self.info = await self.client._make(flow)
        return self

    async def refresh(self) -> Self:
        self.info = await self.client._make(operations.get_job(self.id))
        return self

    async def cancel(self) -> Self:
        self.info = await self.client._make(operations.cancel_job(self.id))
        return self

    def results(self, status: operations.LineStatus | None = None) -> AsyncIterator[wire.LineResult]:
        """The result of each line of an import."""
        return self.client._lines(operations.job_results(self.id, status=status))

    def pairs(self) -> AsyncIterator[wire.MinedPair]:
        """The translation pairs that the job found, best first."""
        return self.client._lines(operations.job_pairs(self.id))

    def clusters(self) -> AsyncIterator[wire.DuplicateCluster]:
        """The clusters of duplicates that the job found."""
        return self.client._lines(operations.job_clusters(self.id))


async def _chunks(path: str) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while chunk := await file.read(CHUNK_BYTES):
            yield chunk
