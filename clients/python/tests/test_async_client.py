"""The asynchronous client does the same as the synchronous one, under asyncio and trio."""

from __future__ import annotations

import inspect
from pathlib import Path

import anyio
import pytest

from conftest import Server
from dragoman import AsyncClient, AsyncJob, Client, DragomanError, Job

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_documents_are_stored_found_listed_and_deleted(server: Server) -> None:
    async with AsyncClient(server.url) as client:
        await client.get_or_create_collection("awaited")
        stored = await client.upsert("awaited", [{"id": "de", "text": "Es regnet."}, {"id": "x", "text": " "}])
        assert stored["failed"] == 1
        found = await client.search("awaited", "雨が降っています。", limit=1)
        assert found["hits"][0]["id"] == "de"
        assert [document["id"] async for document in client.list_documents("awaited", limit=1)] == ["de"]
        assert [document["text"] async for document in client.export_documents("awaited")] == ["Es regnet."]
        assert await client.delete_documents("awaited", ids=["de"]) == 1
        await client.delete_collection("awaited")


async def test_several_requests_run_at_once(server: Server) -> None:
    told: dict[str, str] = {}

    async def tell(client: AsyncClient, text: str) -> None:
        told[text] = (await client.detect_languages([text]))[0]["language"]

    texts = {"Es regnet heute sehr stark.": "de", "Kje je postaja?": "sl", "雨が降っています。": "ja"}
    async with AsyncClient(server.url) as client, anyio.create_task_group() as group:
        for text in texts:
            group.start_soon(tell, client, text)
    assert told == texts


async def test_a_file_is_imported_and_waited_for(server: Server, tmp_path: Path) -> None:
    (tmp_path / "lines.ndjson").write_text('{"id": "a", "text": "Hallo"}\n{"id": "b"}\n')
    async with AsyncClient(server.url) as client:
        await client.create_collection("file")
        seen: list[str] = []
        job = await client.import_file("file", tmp_path / "lines.ndjson", progress=lambda info: seen.append(info["status"]))
        await job.wait(timeout=60)
        assert seen[-1] == "succeeded"
        assert [line["line"] async for line in job.results(status="failed")] == [2]
        made = await (await client.create_snapshot(["file"])).wait(timeout=60)
        await client.download_snapshot(made.info["details"]["snapshot"], tmp_path / "file.tar.zst")
        await client.delete_snapshot(made.info["details"]["snapshot"])
        kept = await client.upload_snapshot(made.info["details"]["snapshot"], tmp_path / "file.tar.zst")
        assert kept["archive_bytes"] == (tmp_path / "file.tar.zst").stat().st_size
        await client.delete_collection("file")


async def test_errors_are_the_same() -> None:
    async with AsyncClient("http://127.0.0.1:9", retries=1) as client:
        with pytest.raises(DragomanError) as error:
            await client.get_collection("news")
    assert error.value.code == "unreachable"


@pytest.mark.parametrize(("blocking", "awaited"), [(Client, AsyncClient), (Job, AsyncJob)])
async def test_both_clients_have_the_same_methods_with_the_same_arguments(blocking: type, awaited: type) -> None:
    def methods(of: type) -> dict[str, list[str]]:
        public = {name: value for name, value in vars(of).items() if not name.startswith("_") and callable(value)}
        return {name.replace("aclose", "close"): list(inspect.signature(value).parameters) for name, value in public.items()}

    assert methods(blocking) == methods(awaited)
