"""The same document, sent in six ways, each into a collection of its own: curl, the client that openapi-python-client generates,
our own client, the command line, LangChain, and a tool of the Model Context Protocol. All store the same, embeddings too."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from dragoman_client import Client as GeneratedClient
from dragoman_client.api.documents import upsert_documents
from dragoman_client.models import UpsertDocumentsRequest
from langchain_core.documents import Document
from mcp import Client as McpClient

from dragoman import Client
from dragoman.langchain import DragomanVectorStore

URL = os.environ["DRAGOMAN_URL"]
# What a way could change: line ends, white space at the ends, composed and decomposed letters, characters beyond 16 bits, signs
# that JSON, a shell or a path would escape; large integers, fractions, and values of every type.
DOCUMENT = {
    "id": "a/b?#%2F 🚋 'x'",
    "text": ' # Straßenbahn\r\n\r\nDie neue Linie "7" fährt ab Mai.\n\n'
    "# Cafe\u0301 \\ $HOME `ls`\n\nLe café ouvre à 8 h\u00a0; 🚋 für 2 €.\t\n",
    "metadata": {
        "year": 2026,
        "large": 9007199254740993,
        "small": -1,
        "share": 0.1,
        "whole": 2.0,
        "tiny": 1e-9,
        "open": True,
        "none": None,
        "tags": ["a", "ü", "", []],
        "nested": {"key with spaces.and.dots": {"<&>": "\u2028\u007f"}},
    },
}


def by_curl(collection: str) -> None:
    command = ["curl", "--silent", "--fail-with-body", f"{URL}/v1/collections/{collection}/documents"]
    command += ["--header", "content-type: application/json", "--data-binary", "@-"]
    subprocess.run(command, input=json.dumps({"documents": [DOCUMENT]}), text=True, check=True, stdout=subprocess.DEVNULL)


def by_generated_client(collection: str) -> None:
    body = UpsertDocumentsRequest.from_dict({"documents": [DOCUMENT]})
    written = upsert_documents.sync(collection, client=GeneratedClient(base_url=URL), body=body)
    assert written.failed == 0, written


def by_own_client(collection: str) -> None:
    with Client(URL) as client:
        assert client.upsert(collection, [DOCUMENT])["failed"] == 0


def by_command_line(collection: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "documents.ndjson"
        file.write_text(json.dumps(DOCUMENT, ensure_ascii=False) + "\n", encoding="utf-8")
        command = [os.environ["DRAGOMAN_PROGRAM"], "import", collection, str(file), "--server", URL, "--quiet"]
        subprocess.run(command, check=True)


def by_langchain(collection: str) -> None:
    with Client(URL) as client:
        document = Document(id=DOCUMENT["id"], page_content=DOCUMENT["text"], metadata=DOCUMENT["metadata"])
        assert DragomanVectorStore(client, collection).add_documents([document]) == [DOCUMENT["id"]]


def by_mcp(collection: str) -> None:
    async def call() -> None:
        async with McpClient(f"{URL}/mcp") as agent:
            result = await agent.call_tool("add_documents", {"collection": collection, "documents": [DOCUMENT]})
            assert not result.is_error and result.structured_content["failed"] == 0, result

    asyncio.run(call())


def stored(client: Client, collection: str) -> dict[str, object]:
    """The document with its passages' embeddings, as an export has it and as a request gets it."""
    end = time.monotonic() + 60
    while client.get_collection(collection)["passages_pending"] > 0:
        assert time.monotonic() < end, f"{collection} is not embedded"
        time.sleep(0.05)
    (exported,) = client.export_documents(collection, include="vector")
    got = client.get_document(collection, DOCUMENT["id"])
    times = ("created_at", "updated_at", "version")
    return {"exported": without(exported, times), "got": without(got, times)}


def without(document: object, members: tuple[str, ...]) -> dict[str, object]:
    return {name: value for name, value in dict(document).items() if name not in members}


WAYS = [by_curl, by_generated_client, by_own_client, by_command_line, by_langchain, by_mcp]
with Client(URL) as client:
    found = {}
    for way in WAYS:
        collection = way.__name__.replace("_", "-")
        client.create_collection(collection)
        way(collection)
        found[way.__name__] = stored(client, collection)
        client.delete_collection(collection)
expect = found["by_curl"]
sent = {name: expect["got"][name] for name in DOCUMENT}
assert json.dumps(sent, sort_keys=True) == json.dumps(DOCUMENT, sort_keys=True), sent
for way, document in found.items():
    assert json.dumps(document, sort_keys=True) == json.dumps(expect, sort_keys=True), f"{way}: {document}\nby_curl: {expect}"
print(f"the same document, sent in {len(WAYS)} ways: ok")
