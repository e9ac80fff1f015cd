"""The vector store for LangChain: LangChain's own tests of vector stores, and tests of this store's own features."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from dragoman import Client, DragomanError
from dragoman.langchain import DragomanVectorStore


@pytest.fixture
def store(client: Client) -> Iterator[DragomanVectorStore]:
    name = f"langchain-{uuid.uuid4()}"
    yield DragomanVectorStore(client, name)
    client.delete_collection(name)


class TestTheStandard(VectorStoreIntegrationTests):
    """What LangChain requires of every vector store, synchronous and asynchronous."""

    @pytest.fixture
    def vectorstore(self, store: DragomanVectorStore) -> VectorStore:
        return store


def fill(store: DragomanVectorStore) -> None:
    store.add_documents(
        [
            Document(id="de", page_content="Wegen eines Streiks fahren am Freitag keine Züge.", metadata={"year": 2026}),
            Document(id="fr", page_content="De fortes pluies sont attendues demain.", metadata={"year": 2025}),
            Document(id="ja", page_content="新しい博物館が来月開館します。", metadata={"year": 2025}),
        ]
    )


def test_a_question_finds_an_answer_in_another_language(store: DragomanVectorStore) -> None:
    fill(store)
    document, score = store.similarity_search_with_score("Are there trains on Friday?", k=1)[0]
    assert (document.id, document.metadata) == ("de", {"year": 2026}) and 0 < score <= 1


def test_a_retriever_passes_filters_and_options_on(store: DragomanVectorStore) -> None:
    fill(store)
    retriever = store.as_retriever(search_kwargs={"k": 3, "filter": {"field": "year", "eq": 2025}, "languages": ["ja"]})
    assert [document.id for document in retriever.invoke("museum")] == ["ja"]


def test_a_filter_may_have_the_form_that_other_stores_use(store: DragomanVectorStore) -> None:
    fill(store)

    def found(filter: dict[str, Any] | None) -> set[str | None]:
        return {document.id for document in store.similarity_search("museum", k=3, filter=filter)}

    assert found({"year": 2025}) == {"fr", "ja"}
    assert found({"year": {"$gt": 2025, "$lte": 2026}}) == {"de"}
    assert found({"$or": [{"year": 2026}, {"year": {"$nin": [2025, 2026]}}]}) == {"de"}
    assert found({"$not": {"year": {"$in": [2025]}}}) == {"de"}
    assert found({"year": 2025, "language": "ja"}) == set(), "this language is one in the metadata"
    assert found({}) == found(None) == {"de", "fr", "ja"}
    store.add_texts(["Das Museum öffnet um neun Uhr."], [{"author": {"name": "Ada"}}], ids=["nested"])
    assert found({"author.name": "Ada"}) == {"nested"}
    with pytest.raises(ValueError, match="no operator \\$like"):
        found({"year": {"$like": "2%"}})
    with pytest.raises(DragomanError, match="string, a number"):
        found({"year": {}})


def test_deleting_by_an_empty_filter_is_refused(client: Client, store: DragomanVectorStore) -> None:
    fill(store)
    with pytest.raises(ValueError, match="would delete all"):
        store.delete(filter={})
    assert store.delete(filter={"year": 2025}) and client.count_documents(store.collection) == 1


def test_langchains_indexing_keeps_the_store_in_step_with_its_sources(client: Client, store: DragomanVectorStore) -> None:
    records = InMemoryRecordManager("sources")
    records.create_schema()

    def indexed(*texts: str) -> tuple[int, int]:
        documents = [Document(page_content=text, metadata={"source": text}) for text in texts]
        done = index(documents, records, store, cleanup="full", source_id_key="source", key_encoder="sha256")
        return done["num_added"], done["num_deleted"]

    assert indexed("Es regnet.", "Es schneit.") == (2, 0)
    assert indexed("Es regnet.", "Es hagelt.") == (1, 1)
    assert {document["text"] for document in client.list_documents(store.collection)} == {"Es regnet.", "Es hagelt."}


def test_an_embedding_finds_documents(client: Client, store: DragomanVectorStore) -> None:
    fill(store)
    (embedding,) = client.embed(["Il pleut demain"], input_type="query")
    lexical = DragomanVectorStore(client, store.collection, mode="lexical")
    for searched in (store, lexical):
        assert [document.id for document in searched.similarity_search_by_vector(embedding, k=1)] == ["fr"]


async def test_a_retriever_is_awaited(store: DragomanVectorStore) -> None:
    fill(store)
    documents = await store.as_retriever(search_kwargs={"k": 1}).ainvoke("¿Lloverá mañana?")
    assert [document.id for document in documents] == ["fr"]


def test_relevance_is_between_0_and_1_and_cut_by_a_threshold(store: DragomanVectorStore) -> None:
    fill(store)
    every = store.similarity_search_with_relevance_scores("Il pleut demain", k=3)
    best = every[0][1]
    assert all(0 <= score <= 1 for _, score in every)
    assert len(store.similarity_search_with_relevance_scores("Il pleut demain", k=3, score_threshold=best)) == 1


def test_scores_of_another_mode_are_not_taken_for_relevance(client: Client, store: DragomanVectorStore) -> None:
    fill(store)
    dense = DragomanVectorStore(client, store.collection, mode="dense")
    assert dense.similarity_search("Il pleut demain", k=1)[0].id == "fr"
    with pytest.raises(ValueError, match="no relevance"):
        dense.similarity_search_with_relevance_scores("Il pleut demain", k=1)


def test_maximal_marginal_relevance_is_the_option_diversity(store: DragomanVectorStore) -> None:
    fill(store)
    store.add_texts(["Am Freitag fahren wegen eines Streiks keine Züge."], ids=["de-again"])
    similar = store.as_retriever(search_type="mmr", search_kwargs={"k": 2, "lambda_mult": 1})
    assert {document.id for document in similar.invoke("Are there trains on Friday?")} == {"de", "de-again"}
    diverse = store.as_retriever(search_type="mmr", search_kwargs={"k": 2, "lambda_mult": 0.1})
    assert len({"de", "de-again"} & {document.id for document in diverse.invoke("Are there trains on Friday?")}) == 1


def test_a_hit_can_be_the_passage_that_answers(client: Client, store: DragomanVectorStore) -> None:
    text = "# Museum\n\nDas Museum öffnet um neun Uhr.\n\n# Bahnhof\n\nDer letzte Zug fährt um elf Uhr abends ab."
    store.add_texts([text])
    passages = DragomanVectorStore(client, store.collection, content="passage")
    (hit,) = passages.similarity_search("When does the last train leave?")
    assert "Zug" in hit.page_content and "Museum" not in hit.page_content


def test_a_store_is_made_from_texts_and_emptied(client: Client) -> None:
    name = f"langchain-{uuid.uuid4()}"
    made = DragomanVectorStore.from_texts(["Es regnet.", "Es schneit."], ids=["a", "b"], client=client, collection=name)
    assert {document.page_content for document in made.get_by_ids(["a", "b", "c"])} == {"Es regnet.", "Es schneit."}
    made.delete()
    assert client.count_documents(name) == 0
    client.delete_collection(name)
    DragomanVectorStore.from_documents([Document(id="c", page_content="Es hagelt.")], client=client, collection=name)
    assert client.get_document(name, "c")["text"] == "Es hagelt."
    client.delete_collection(name)
    with pytest.raises(ValueError, match="server embeds"):
        DragomanVectorStore.from_texts(["a"], DeterministicFakeEmbedding(size=2), client=client, collection=name)


def test_a_text_that_cannot_be_stored_is_an_error(store: DragomanVectorStore) -> None:
    with pytest.raises(DragomanError, match="/documents/1/text"):
        store.add_texts(["Hallo", " "])
