"""A round trip with the client that openapi-python-client generates: create, write, search, be refused, delete."""

import os

from dragoman_client import Client
from dragoman_client.api.collections import create_collection, delete_collection
from dragoman_client.api.documents import get_document, upsert_documents
from dragoman_client.api.search import search_documents
from dragoman_client.models import (
    CreateCollectionRequest,
    DocumentInput,
    Problem,
    SearchDocumentsRequest,
    UpsertDocumentsRequest,
)

TEXTS = {
    "fi": "Kirjasto on suljettu maanantaisin.",
    "el": "Το πλοίο φεύγει στις οκτώ το πρωί.",
    "ko": "감자를 씻어서 얇게 썬다.",
}

client = Client(base_url=os.environ["DRAGOMAN_URL"])
made = create_collection.sync(client=client, body=CreateCollectionRequest(name="python"))
assert made.name == "python", made
again = create_collection.sync(client=client, body=CreateCollectionRequest(name="python"))
assert isinstance(again, Problem) and again.code == "collection_exists", again

documents = [DocumentInput(id=language, text=text, language=language) for language, text in TEXTS.items()]
written = upsert_documents.sync("python", client=client, body=UpsertDocumentsRequest(documents=documents))
assert written.failed == 0 and [result.id for result in written.results] == list(TEXTS), written
assert get_document.sync("python", "ko", client=client).text == TEXTS["ko"]

found = search_documents.sync("python", client=client, body=SearchDocumentsRequest(query="When does the ship leave?", limit=1))
assert [hit.id for hit in found.hits] == ["el"], found
missing = get_document.sync("python", "nobody", client=client)
assert isinstance(missing, Problem) and missing.code == "document_not_found", missing
deleted = delete_collection.sync_detailed("python", client=client)
assert deleted.status_code == 204, deleted
print("openapi-python-client: ok")
