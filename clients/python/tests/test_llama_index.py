"""The vector store and the embedding for LlamaIndex, with its own index and retriever."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from dragoman import Client
from dragoman.llama_index import DragomanEmbedding, DragomanVectorStore

TEXTS = {
    "de": "Wegen eines Streiks fahren am Freitag keine Züge.",
    "fr": "De fortes pluies sont attendues demain.",
    "ja": "新しい博物館が来月開館します。",
}


def node(language: str) -> TextNode:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"file-{language}")}
    metadata = {"language": language, "size": len(TEXTS[language]), "tags": [language, "news"], "a.b": 1}
    return TextNode(id_=language, text=TEXTS[language], metadata=metadata, relationships=source)


@pytest.fixture
def store(client: Client) -> Iterator[DragomanVectorStore]:
    name = f"llama-{uuid.uuid4()}"
    store = DragomanVectorStore(client, name)
    assert store.add([node(language) for language in TEXTS]) == list(TEXTS)
    yield store
    client.delete_collection(name)


def found(store: DragomanVectorStore, *filters: MetadataFilter, condition: FilterCondition = FilterCondition.AND) -> set[str]:
    return {found.node_id for found in store.get_nodes(filters=MetadataFilters(filters=list(filters), condition=condition))}


def test_nodes_are_found_by_what_the_server_embeds(store: DragomanVectorStore) -> None:
    answer = store.query(VectorStoreQuery(query_str="Are there trains on Friday?", similarity_top_k=1))
    assert answer.ids == ["de"] and answer.nodes and answer.similarities
    assert answer.nodes[0].get_content() == TEXTS["de"]
    assert answer.nodes[0].metadata == node("de").metadata
    assert answer.nodes[0].ref_doc_id == "file-de"


def test_a_retriever_over_the_store_embeds_no_query(store: DragomanVectorStore, client: Client) -> None:
    index = VectorStoreIndex.from_vector_store(store, embed_model=DragomanEmbedding(client))
    hits = index.as_retriever(similarity_top_k=1).retrieve("¿Lloverá mañana?")
    assert [hit.node.node_id for hit in hits] == ["fr"]


async def test_a_retriever_is_awaited(store: DragomanVectorStore, client: Client) -> None:
    index = VectorStoreIndex.from_vector_store(store, embed_model=DragomanEmbedding(client))
    hits = await index.as_retriever(similarity_top_k=1).aretrieve("When does the museum open?")
    assert [hit.node.node_id for hit in hits] == ["ja"]
    await store.adelete("file-ja")
    assert {node.node_id for node in await store.aget_nodes()} == {"de", "fr"}


def test_an_index_inserts_into_the_store(store: DragomanVectorStore, client: Client) -> None:
    storage = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex([], storage_context=storage, embed_model=DragomanEmbedding(client))
    index.insert_nodes([TextNode(id_="sw", text="Basi la jioni limechelewa.")])
    assert [hit.node.node_id for hit in index.as_retriever(similarity_top_k=1).retrieve("The bus is late.")] == ["sw"]


def test_an_embedding_can_be_asked_for_instead_of_a_text(store: DragomanVectorStore, client: Client) -> None:
    embedding = DragomanEmbedding(client).get_query_embedding("Il va pleuvoir demain.")
    assert store.query(VectorStoreQuery(query_embedding=embedding, similarity_top_k=1)).ids == ["fr"]
    assert len(DragomanEmbedding(client).get_text_embedding_batch(list(TEXTS.values()))) == 3


def test_words_are_searched_for_and_modes_that_are_not_there_refused(store: DragomanVectorStore) -> None:
    assert store.query(VectorStoreQuery(query_str="pluies", mode=VectorStoreQueryMode.TEXT_SEARCH)).ids == ["fr"]
    hybrid = VectorStoreQuery(query_str="pluies", mode=VectorStoreQueryMode.HYBRID, alpha=0.5)
    assert store.query(hybrid).ids == ["fr"]
    with pytest.raises(ValueError, match="no mode svm"):
        store.query(VectorStoreQuery(query_str="pluies", mode=VectorStoreQueryMode.SVM))


def test_maximal_marginal_relevance_is_the_option_diversity(store: DragomanVectorStore, client: Client) -> None:
    store.add([TextNode(id_="de-again", text="Am Freitag fahren wegen eines Streiks keine Züge.")])
    index = VectorStoreIndex.from_vector_store(store, embed_model=DragomanEmbedding(client))

    def retrieved(threshold: float) -> set[str]:
        options = {"mmr_threshold": threshold}
        retriever = index.as_retriever(similarity_top_k=2, vector_store_query_mode="mmr", vector_store_kwargs=options)
        return {hit.node.node_id for hit in retriever.retrieve("Are there trains on Friday?")}

    assert retrieved(1) == {"de", "de-again"}
    assert len({"de", "de-again"} & retrieved(0.1)) == 1


def test_filters_are_those_of_the_server(store: DragomanVectorStore) -> None:
    def where(key: str, operator: FilterOperator, value: object) -> MetadataFilter:
        return MetadataFilter(key=key, operator=operator, value=value)  # type: ignore[arg-type]

    german, small = where("language", FilterOperator.EQ, "de"), where("size", FilterOperator.LT, 20)
    assert found(store, german) == {"de"}
    assert found(store, small) == {"ja"}
    assert found(store, german, small) == set()
    assert found(store, german, small, condition=FilterCondition.OR) == {"de", "ja"}
    assert found(store, german, small, condition=FilterCondition.NOT) == {"fr"}
    assert found(store, where("language", FilterOperator.NIN, ["de"])) == {"fr", "ja"}
    assert found(store, where("tags", FilterOperator.ALL, ["ja", "news"])) == {"ja"}
    assert found(store, where("tags", FilterOperator.CONTAINS, "fr")) == {"fr"}
    assert found(store, where("a.b", FilterOperator.EQ, 1)) == set(TEXTS)
    with pytest.raises(ValueError, match="no filter text_match"):
        found(store, where("language", FilterOperator.TEXT_MATCH, "d"))


def test_a_query_is_restricted_to_nodes_and_to_their_documents(store: DragomanVectorStore) -> None:
    assert store.query(VectorStoreQuery(query_str="news", similarity_top_k=3, node_ids=["ja"])).ids == ["ja"]
    assert store.query(VectorStoreQuery(query_str="news", similarity_top_k=3, doc_ids=["file-fr"])).ids == ["fr"]


def test_nodes_are_deleted_by_document_by_id_and_all(store: DragomanVectorStore) -> None:
    store.delete("file-de")
    store.delete_nodes(["fr"])
    assert {node.node_id for node in store.get_nodes()} == {"ja"}
    with pytest.raises(ValueError, match="node_ids or filters"):
        store.delete_nodes()
    with pytest.raises(TypeError, match="node_ids must be a list"):
        store.delete_nodes("ja")  # type: ignore[arg-type]
    nothing = MetadataFilters(filters=[])
    for empty in (nothing, MetadataFilters(filters=[nothing], condition=FilterCondition.OR)):
        with pytest.raises(ValueError, match="node_ids or filters"):
            store.delete_nodes(filters=empty)
    store.clear()
    assert store.get_nodes() == []
