"""A vector store and an embedding for LlamaIndex (`pip install dragoman-client[llama-index]`).

The server embeds texts and queries, so nodes that you add to the store need no embedding. A `VectorStoreIndex`, however, embeds
every node that it inserts: give it a `DragomanEmbedding`, or add the nodes to the store and make the index from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from . import wire
from .calls import listed
from .client import Client
from .errors import DragomanError
from .filters import metadata_field

MODES: dict[VectorStoreQueryMode, wire.SearchMode] = {
    VectorStoreQueryMode.DEFAULT: "full",
    VectorStoreQueryMode.MMR: "full",
    VectorStoreQueryMode.HYBRID: "hybrid",
    VectorStoreQueryMode.TEXT_SEARCH: "lexical",
    VectorStoreQueryMode.SPARSE: "lexical",
}
COMPARISONS = {
    FilterOperator.EQ: "eq",
    FilterOperator.NE: "ne",
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
    FilterOperator.IN: "in",
    FilterOperator.ANY: "any",
}
EVERYTHING: wire.FilterNode = {"and": []}


class DragomanVectorStore(BasePydanticVectorStore):
    """A collection as a vector store. Each node is a document."""

    stores_text: bool = True
    is_embedding_query: bool = False
    collection: str
    _client: Client = PrivateAttr()

    def __init__(self, client: Client, collection: str, **fields: Any) -> None:
        super().__init__(**{"collection": collection, **fields})
        self._client = client
        client.get_or_create_collection(collection)

    @classmethod
    def class_name(cls) -> str:
        return "DragomanVectorStore"

    @property
    def client(self) -> Client:
        return self._client

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Stores nodes, replacing those with the same ids, and returns their ids. Raises an error if it cannot store one."""
        documents: list[wire.DocumentInput] = [
            {
                "id": node.node_id,
                "text": node.get_content(metadata_mode=MetadataMode.NONE),
                "metadata": node_to_metadata_dict(node, remove_text=True),
            }
            for node in nodes
        ]
        if not documents:
            return []
        results = self._client.upsert(self.collection, documents, **kwargs)["results"]
        for result in results:
            if "error" in result:
                error = result["error"]
                raise DragomanError(error["code"], f"{error['pointer']}: {error['detail']}", results=results)
        return [result["id"] for result in results]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Searches for the query's text, or for its embedding if it has no text. `kwargs` are search options."""
        if query.mode not in MODES:
            raise ValueError(f"there is no mode {query.mode.value}; the modes are {', '.join(mode.value for mode in MODES)}")
        options: wire.SearchOptions = {"limit": query.similarity_top_k, "include": ["text", "metadata"]}
        if query.query_str:
            options["mode"] = MODES[query.mode]
            if query.mode == VectorStoreQueryMode.HYBRID and query.alpha is not None:
                options["weights"] = {"dense": query.alpha, "lexical": 1 - query.alpha}
        elif query.query_embedding is not None:
            options["vector"] = query.query_embedding
        threshold = kwargs.pop("mmr_threshold", query.mmr_threshold)
        if query.mode == VectorStoreQueryMode.MMR:
            options["diversity"] = 0.5 if threshold is None else 1 - threshold
        # A retriever sends empty lists of ids when it means all documents.
        restrictions = _restrictions(query.node_ids or None, query.filters)
        if query.doc_ids:
            restrictions.append({"field": "ref_doc_id", "in": query.doc_ids})
        if restrictions:
            options["filter"] = {"and": restrictions}
        options.update(kwargs)  # type: ignore[typeddict-item]
        hits = self._client.search(self.collection, query.query_str or None, **options)["hits"]
        return VectorStoreQueryResult(
            nodes=[metadata_dict_to_node(hit["metadata"], hit["text"]) for hit in hits],
            similarities=[hit["score"] for hit in hits],
            ids=[hit["id"] for hit in hits],
        )

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        found = self._client.list_documents(self.collection, filter={"and": _restrictions(node_ids, filters)})
        return [metadata_dict_to_node(document["metadata"], document["text"]) for document in found]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        self._client.delete_documents(self.collection, filter={"field": "ref_doc_id", "eq": ref_doc_id})

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        restrictions = _restrictions(node_ids, filters)
        if not restrictions:
            raise ValueError("give node_ids or filters; clear() deletes everything")
        self._client.delete_documents(self.collection, filter={"and": restrictions})

    def clear(self) -> None:
        self._client.delete_documents(self.collection, filter=EVERYTHING)

    # The base class's versions of these methods would block the event loop.

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        return await asyncio.to_thread(self.query, query, **kwargs)

    async def aget_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        await asyncio.to_thread(self.delete, ref_doc_id)

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        await asyncio.to_thread(self.delete_nodes, node_ids, filters)

    async def aclear(self) -> None:
        await asyncio.to_thread(self.clear)


class DragomanEmbedding(BaseEmbedding):
    """The server's model as an embedding, for code that needs one."""

    _client: Client = PrivateAttr()

    def __init__(self, client: Client, **fields: Any) -> None:
        super().__init__(**{"model_name": "dragoman", "embed_batch_size": 128, **fields})
        self._client = client

    @classmethod
    def class_name(cls) -> str:
        return "DragomanEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._client.embed(texts)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._client.embed([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._client.embed([query], input_type="query")[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)


def _restrictions(ids: Sequence[str] | None, filters: MetadataFilters | None) -> list[wire.FilterNode]:
    restrictions: list[wire.FilterNode] = []
    if ids is not None:
        restrictions.append({"field": "id", "in": listed("node_ids", ids)})
    if filters is not None and _restricts(filters):
        restrictions.append(_tree(filters))
    return restrictions


def _restricts(filters: MetadataFilters) -> bool:
    """Whether the filters contain a condition. Without one they match everything."""
    return any(not isinstance(part, MetadataFilters) or _restricts(part) for part in filters.filters)


def _tree(filters: MetadataFilters) -> wire.FilterNode:
    parts = [_tree(part) if isinstance(part, MetadataFilters) else _condition(part) for part in filters.filters]
    if filters.condition == FilterCondition.OR:
        return {"or": parts}
    return {"not": {"or": parts}} if filters.condition == FilterCondition.NOT else {"and": parts}


def _condition(part: MetadataFilter) -> wire.FilterNode:
    field = metadata_field(part.key.replace("\\", "\\\\").replace(".", "\\."))
    values: list[Any] = list(part.value) if isinstance(part.value, list) else [part.value]
    if part.operator in COMPARISONS:
        return {"field": field, COMPARISONS[part.operator]: part.value}  # type: ignore[misc]
    if part.operator == FilterOperator.NIN:
        return {"not": {"field": field, "in": values}}
    if part.operator in (FilterOperator.ALL, FilterOperator.CONTAINS):
        return {"and": [{"field": field, "any": [value]} for value in values]}
    raise ValueError(f"there is no filter {part.operator.value}")
