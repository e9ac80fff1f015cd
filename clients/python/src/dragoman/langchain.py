"""A vector store for LangChain (`pip install dragoman-client[langchain]`). The server splits, embeds and ranks the texts.

The asynchronous methods come from `VectorStore`: they run the methods below in a thread, which a `Client` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from typing_extensions import Self

from . import wire
from .client import Client
from .errors import DragomanError
from .filters import metadata_filter


class DragomanVectorStore(VectorStore):
    """A collection as a vector store.

    `content` says what a found document holds: the whole `text`, or only the `passage` that answers. `options` apply to every
    search (`mode`, `languages`, `prefer_language` and so on); the arguments of a search override them. A `filter` has Dragoman's
    format, or that of other vector stores: `{"year": 2026}`, `{"year": {"$gte": 2025}}`.
    """

    def __init__(self, client: Client, collection: str, *, content: Literal["text", "passage"] = "text", **options: Any) -> None:
        self.client, self.collection, self.content, self.options = client, collection, content, options
        client.get_or_create_collection(collection)

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Stores texts, replacing those with the same ids, and returns their ids. Raises an error if it cannot store one.

        `batch_size` is what LangChain's indexing calls the maximum number of documents in a request.
        """
        every = list(texts)
        if any(also is not None and len(also) != len(every) for also in (metadatas, ids)):
            raise ValueError("texts, metadatas and ids must have the same length")
        documents: list[wire.DocumentInput] = [{"text": text} for text in every]
        for document, metadata in zip(documents, metadatas or [], strict=False):
            document["metadata"] = metadata
        for document, id in zip(documents, ids or [], strict=False):
            if id is not None:
                document["id"] = id
        if not documents:
            return []
        if batch_size is not None:
            kwargs["batch_documents"] = batch_size
        results = self.client.upsert(self.collection, documents, **kwargs)["results"]
        for result in results:
            if "error" in result:
                error = result["error"]
                raise DragomanError(error["code"], f"{error['pointer']}: {error['detail']}", results=results)
        return [result["id"] for result in results]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Deletes documents by ids or by a `filter`; without either, deletes all documents."""
        everything: wire.FilterNode = {"and": []}
        if ids is not None:
            self.client.delete_documents(self.collection, ids=ids)
        elif "filter" not in kwargs:
            self.client.delete_documents(self.collection, filter=everything)
        elif not kwargs["filter"]:
            raise ValueError("an empty filter would delete all documents; to do that, leave it out")
        else:
            self.client.delete_documents(self.collection, filter=metadata_filter(kwargs["filter"]))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        found = {document["id"]: document for document in self.client.list_documents(self.collection, ids=ids)}
        return [Document(id=id, page_content=found[id]["text"], metadata=found[id]["metadata"]) for id in ids if id in found]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """The nearest documents with their scores. In mode `full` a score is the relevance, between 0 and 1."""
        return [(self._document(hit), hit["score"]) for hit in self._hits(query, k, {**self.options, **kwargs})]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """The documents nearest to an embedding by the server's model, such as `client.embed` returns: mode `dense`."""
        options = {**self.options, "mode": "dense", **kwargs, "vector": embedding}
        return [self._document(hit) for hit in self._hits(None, k, options)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """The search option `diversity`, as 1 - `lambda_mult`. `fetch_k` has no effect: the server reorders the best 200."""
        return self.similarity_search(query, k, **{**kwargs, "diversity": 1 - lambda_mult})

    @classmethod
    def from_documents(cls, documents: list[Document], embedding: Embeddings | None = None, **kwargs: Any) -> Self:
        """Like `from_texts`."""
        return super().from_documents(documents, embedding, **kwargs)  # type: ignore[arg-type]

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> DragomanVectorStore:
        """Makes the store from `client` and `collection`, and stores the texts. It takes no `embedding`: the server embeds."""
        if embedding is not None:
            raise ValueError("the server embeds the texts: embedding must be None")
        store = cls(**kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def _hits(self, query: str | None, k: int, options: dict[str, Any]) -> list[wire.SearchHit]:
        include: list[wire.HitPart] = [self.content, "metadata"]
        options = {**options, "limit": k, "include": include}
        if options.get("filter") is not None:
            options["filter"] = metadata_filter(options["filter"])
        return self.client.search(self.collection, query, **options)["hits"]

    def _document(self, hit: wire.SearchHit) -> Document:
        text = hit["passage"]["text"] if self.content == "passage" else hit["text"]
        return Document(id=hit["id"], page_content=text, metadata=hit["metadata"])

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        mode = self.options.get("mode", "full")
        if mode != "full":
            raise ValueError(f"scores of mode {mode} are no relevance between 0 and 1; only those of mode full are")
        return lambda score: score
