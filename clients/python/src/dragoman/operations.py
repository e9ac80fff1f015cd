"""The operations of the API, each written once. Both clients turn them into methods. Arguments are named as in the API."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Literal, TypeVar, cast

from typing_extensions import Unpack

from . import wire
from .calls import Call, Flow, Lines, Pages, Pause, ask, ask_by_post, delete, get, given, listed, path, write
from .errors import DragomanError

#: A batch stays well below the server's default limits (`batch_documents_max`, `body_bytes_max`).
BATCH_DOCUMENTS, BATCH_BYTES = 1000, 16 * 1024 * 1024
#: As many texts, pairs or ids as the server accepts by default, or fewer (`embedding_inputs_max`, `batch_documents_max`).
BATCH_TEXTS = 1000
#: The most values that one filter may list.
FILTER_VALUES_MAX = 10_000

T = TypeVar("T")
U = TypeVar("U")
LineStatus = Literal["created", "updated", "failed"]
InputType = Literal["document", "query"]

CONTENT_TYPES = {
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
}
ENCODINGS = {".gz": "gzip", ".zst": "zstd"}


# Collections


def create_collection(
    name: str, *, idempotency_key: str | None = None, **options: Unpack[wire.CollectionOptions]
) -> Call[wire.CollectionInfo]:
    """Creates a collection. Without options, the server's model embeds its texts."""
    return write(given(name=name, **options), "collections", key=idempotency_key)


def get_or_create_collection(name: str, **options: Unpack[wire.CollectionOptions]) -> Flow[wire.CollectionInfo]:
    """Returns the collection of this name or alias, and creates it with these options if there is none. Never changes an existing
    one. Only creating it requires an admin key.
    """
    try:
        return (yield from ask(get_collection(name)))
    except DragomanError as error:
        if error.code != "collection_not_found":
            raise
    try:
        return (yield from ask(create_collection(name, **options)))
    except DragomanError as error:
        # Somebody else may have created it meanwhile.
        if error.code != "collection_exists":
            raise
    return (yield from ask(get_collection(name)))


def get_collection(collection: str) -> Call[wire.CollectionInfo]:
    return get("collections", collection)


def change_collection(collection: str, **change: Unpack[wire.CollectionChange]) -> Call[wire.CollectionInfo]:
    return Call("PATCH", path("collections", collection), body=given(**change), repeatable=True)


def list_collections(*, limit: int | None = None) -> Pages[wire.CollectionInfo]:
    """All collections, `limit` per request."""
    return Pages(lambda cursor: get("collections", limit=limit, cursor=cursor), "collections")


def delete_collection(collection: str) -> Call[None]:
    return delete("collections", collection)


# Aliases


def put_alias(alias: str, collection: str) -> Call[wire.AliasInfo]:
    """Points an alias to a collection. An existing alias switches atomically."""
    return Call("PUT", path("aliases", alias), body={"collection": collection}, repeatable=True)


def list_aliases(*, limit: int | None = None) -> Pages[wire.AliasInfo]:
    return Pages(lambda cursor: get("aliases", limit=limit, cursor=cursor), "aliases")


def delete_alias(alias: str) -> Call[None]:
    """Deletes an alias, but not its collection."""
    return delete("aliases", alias)


# Documents


def upsert(
    collection: str,
    documents: wire.DocumentInput | Iterable[wire.DocumentInput],
    *,
    wait: wire.WaitFor | None = None,
    batch_documents: int = BATCH_DOCUMENTS,
    batch_bytes: int = BATCH_BYTES,
) -> Flow[wire.UpsertResult]:
    """Stores one document or any number of them, in as many requests as necessary.

    The answer has one result per document, in the same order; the result of a failed document gives the reason. If no document
    can be stored, an error lists what is wrong with each. If a request fails, its error has the `results` so far.
    """
    results: list[wire.DocumentResult] = []
    refusals: list[DragomanError] = []
    every = cast(Iterable[wire.DocumentInput], [documents] if isinstance(documents, Mapping) else documents)
    try:
        for batch in _batches(map(_checked, every), batch_documents, batch_bytes):
            yield from _upsert_batch(collection, batch, wait, results, refusals)
    except DragomanError as error:
        error.results = results
        raise
    failed = sum(result["status"] == "failed" for result in results)
    if refusals and failed == len(results):
        for refusal in refusals[1:]:
            refusals[0].violations += refusal.violations
        raise refusals[0]
    return {"results": results, "failed": failed}


def _checked(document: wire.DocumentInput) -> wire.DocumentInput:
    if not isinstance(document, Mapping):
        raise TypeError(f"a document must be a dictionary such as {{'text': …}}, got {type(document).__name__}")
    return document


def _upsert_batch(
    collection: str,
    batch: Sequence[wire.DocumentInput],
    wait: wire.WaitFor | None,
    results: list[wire.DocumentResult],
    refusals: list[DragomanError],
) -> Flow[None]:
    """Sends a batch, or its halves if it is too large for the server, and adds its results to those of the documents before."""
    start = len(results)
    try:
        answer: wire.UpsertResult = yield write(
            {"documents": batch}, "collections", collection, "documents", query=given(wait=wait)
        )
    except DragomanError as error:
        pointers = [violation.pointer or "" for violation in error.violations]
        if len(batch) > 1 and (error.status == 413 or "/documents" in pointers):
            for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                yield from _upsert_batch(collection, half, wait, results, refusals)
            return
        if {_place(pointer) for pointer in pointers} != set(range(len(batch))):
            raise
        refusals.append(_moved(error, start))
        results += _as_results(refusals[-1], batch, start)
        return
    for result in answer["results"]:
        if "error" in result:
            result["error"]["pointer"] = _moved_pointer(result["error"]["pointer"], start)
    results += answer["results"]


def _place(pointer: str) -> int:
    """The index of the document that a pointer into a batch names, or -1."""
    _, *parts = pointer.split("/")
    return int(parts[1]) if parts[:1] == ["documents"] and len(parts) > 1 and parts[1].isdigit() else -1


def _moved_pointer(pointer: str, start: int) -> str:
    place = _place(pointer)
    return pointer if place < 0 else pointer.replace(f"/documents/{place}", f"/documents/{place + start}", 1)


def _moved(error: DragomanError, start: int) -> DragomanError:
    """The error with its pointers counted as if all documents were in one request."""
    error.violations = [type(place)(place.detail, _moved_pointer(place.pointer or "", start)) for place in error.violations]
    return error


def _as_results(error: DragomanError, batch: Sequence[wire.DocumentInput], start: int) -> list[wire.DocumentResult]:
    """The results of a batch of which no document was stored."""
    results: list[wire.DocumentResult] = []
    for place, document in enumerate(batch, start):
        reason = next(violation for violation in error.violations if _place(violation.pointer or "") == place)
        result: wire.DocumentResult = {
            "status": "failed",
            "error": {"code": error.code, "pointer": reason.pointer or "", "detail": reason.detail},
        }
        if isinstance(document.get("id"), str):
            result["id"] = document["id"]
        results.append(result)
    return results


def _batches(values: Iterable[T], count_max: int, bytes_max: int) -> Iterable[list[T]]:
    batch: list[T] = []
    size = 0
    for value in values:
        value_size = len(json.dumps(value, ensure_ascii=False).encode())
        if batch and (len(batch) == count_max or size + value_size > bytes_max):
            yield batch
            batch, size = [], 0
        batch.append(value)
        size += value_size
    if batch:
        yield batch


def get_document(collection: str, id: str) -> Call[wire.StoredDocument]:
    return get("collections", collection, "documents", id)


def patch_document(
    collection: str, id: str, patch: wire.DocumentPatch, *, if_match: int | None = None, wait: wire.WaitFor | None = None
) -> Call[wire.StoredDocument]:
    """Changes metadata, language or title. With `if_match`, the document must still have this version."""
    to = path("collections", collection, "documents", id)
    return Call("PATCH", to, given(wait=wait), patch, _if_match(if_match), repeatable=if_match is None)


def delete_document(collection: str, id: str, *, if_match: int | None = None) -> Call[None]:
    return delete("collections", collection, "documents", id, headers=_if_match(if_match))


def delete_documents(
    collection: str,
    *,
    ids: Sequence[str] | None = None,
    filter: wire.FilterNode | None = None,
    idempotency_key: str | None = None,
) -> Flow[int]:
    """Deletes the documents with these ids, or those that match the filter, and returns how many it deleted."""
    if (ids is None) == (filter is None):
        raise ValueError("give either ids or filter; to delete everything, the filter is {'and': []}")
    parts: list[dict[str, Any]] = (
        [{"filter": filter}] if filter is not None else [{"ids": part} for part in _parts(listed("ids", ids or []))]
    )
    deleted = 0
    for number, part in enumerate(parts):
        key = f"{idempotency_key}-{number}" if idempotency_key and number else idempotency_key
        answer = yield write(part, "collections", collection, "documents", "delete", key=key)
        deleted += answer["deleted"]
    return deleted


def update_documents(
    collection: str,
    *,
    ids: Sequence[str] | None = None,
    filter: wire.FilterNode | None = None,
    change: wire.DocumentsChange,
    idempotency_key: str | None = None,
) -> Call[wire.UpdatedDocuments]:
    """Changes the metadata and the expiry of the documents with these ids (at most 10,000), or of those that match the filter."""
    body = {**given(ids=listed("ids", ids) if ids is not None else None, filter=filter), **change}
    return write(body, "collections", collection, "documents", "update", key=idempotency_key)


def _parts(ids: Sequence[str]) -> list[list[str]]:
    return [list(ids[at : at + FILTER_VALUES_MAX]) for at in range(0, len(ids), FILTER_VALUES_MAX)]


def list_documents(
    collection: str,
    *,
    ids: Sequence[str] | None = None,
    filter: wire.FilterNode | None = None,
    order: Literal["id", "created_at", "updated_at"] | None = None,
    descending: bool | None = None,
    order_by: wire.OrderBy | None = None,
    limit: int | None = None,
) -> Pages[wire.StoredDocument]:
    """All documents, or those that match the filter and have one of these ids (at most 10,000); `limit` per request."""
    with_id: wire.FilterNode | None = {"field": "id", "in": listed("ids", ids)} if ids is not None else None
    both = {"and": [filter, with_id]} if filter and with_id else filter or with_id
    body = given(filter=both, order=order, descending=descending, order_by=order_by, limit=limit)
    return Pages(
        lambda cursor: ask_by_post({**body, "cursor": cursor}, "collections", collection, "documents", "scroll"), "documents"
    )


def count_documents(collection: str, *, filter: wire.FilterNode | None = None) -> Flow[int]:
    answer = yield ask_by_post({"filter": filter}, "collections", collection, "documents", "count")
    return int(answer["documents"])


def count_facets(
    collection: str, facets: Sequence[wire.FacetInput], *, filter: wire.FilterNode | None = None
) -> Call[wire.FacetsResult]:
    return ask_by_post({"facets": list(facets), "filter": filter}, "collections", collection, "facets")


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"if-match": f'"{version}"'}


# Search


def search(collection: str, query: str | None = None, **options: Unpack[wire.SearchOptions]) -> Call[wire.SearchResult]:
    """Searches for a text in any language. `vector` searches for a vector instead, and `like` for documents like another."""
    return ask_by_post({"query": query, **options}, "collections", collection, "search")


def search_batch(collection: str, searches: Sequence[wire.SearchRequest]) -> Call[wire.SearchBatchResult]:
    return ask_by_post({"searches": list(searches)}, "collections", collection, "search", "batch")


def recommend(
    collection: str,
    positive: wire.ExampleInputs,
    negative: wire.ExampleInputs | None = None,
    **options: Unpack[wire.HitOptions],
) -> Call[wire.SearchResult]:
    """Documents like the positive examples and unlike the negative ones."""
    return ask_by_post({"positive": positive, "negative": negative, **options}, "collections", collection, "recommend")


# Import, export, jobs, snapshots


def import_file(
    collection: str,
    file: str,
    *,
    content_type: str | None = None,
    content_encoding: str | None = None,
    types: str | None = None,
) -> Call[wire.JobInfo]:
    """Imports an NDJSON, CSV or TSV file, plain or compressed with gzip or zstd. Its name tells the format unless you do."""
    name = PurePath(file)
    encoding = content_encoding or ENCODINGS.get(name.suffix)
    kind = content_type or CONTENT_TYPES.get(PurePath(name.stem).suffix if name.suffix in ENCODINGS else name.suffix)
    if kind is None:
        raise ValueError(f"{name.name}: neither .ndjson, .jsonl, .csv nor .tsv; give content_type")
    headers = given(**{"content-type": kind, "content-encoding": encoding})
    return Call("POST", path("collections", collection, "import"), query=given(types=types), headers=headers, file=file)


def export_documents(collection: str, *, include: Literal["vector"] | None = None) -> Lines[wire.DocumentInput]:
    """All documents in the format of an import, ordered by id."""
    return Lines(get("collections", collection, "export", include=include))


def list_jobs(
    *, type: str | None = None, status: wire.JobStatus | None = None, collection: str | None = None, limit: int | None = None
) -> Pages[wire.JobInfo]:
    """Jobs, newest first."""
    return Pages(lambda cursor: get("jobs", type=type, status=status, collection=collection, limit=limit, cursor=cursor), "jobs")


def get_job(job: str) -> Call[wire.JobInfo]:
    return get("jobs", job)


def cancel_job(job: str) -> Call[wire.JobInfo]:
    return Call("POST", path("jobs", job, "cancel"), repeatable=True)


def job_results(job: str, *, status: LineStatus | None = None) -> Lines[wire.LineResult]:
    """The result of each line of an import."""
    return Lines(get("jobs", job, "results", status=status))


def job_pairs(job: str) -> Lines[wire.MinedPair]:
    """The translation pairs that a job found, best first."""
    return Lines(get("jobs", job, "pairs"))


def job_clusters(job: str) -> Lines[wire.DuplicateCluster]:
    """The clusters of duplicates that a job found."""
    return Lines(get("jobs", job, "clusters"))


def wait_for_job(
    job: str, *, timeout: float | None = None, progress: Callable[[wire.JobInfo], object] | None = None
) -> Flow[wire.JobInfo]:
    """Waits until a job has succeeded. Polls quickly at first, then every two seconds, and calls `progress` each time.

    A failed or canceled job raises its own code. A job that takes longer than `timeout` seconds raises `timeout`, but continues.
    """
    end = None if timeout is None else time.monotonic() + timeout
    pause_s = 0.05
    while True:
        info = yield from ask(get_job(job))
        if progress is not None:
            progress(info)
        if info["status"] == "succeeded":
            return info
        if info["status"] in ("failed", "canceled"):
            problem = info.get("error", {"code": info["status"], "detail": f"job {job} was {info['status']}"})
            raise DragomanError(problem["code"], problem["detail"], job=info)
        if end is not None and time.monotonic() + pause_s > end:
            raise DragomanError("timeout", f"job {job} is {info['status']} after {timeout} seconds", job=info)
        yield Pause(pause_s)
        pause_s = min(2.0, 1.5 * pause_s)


def create_snapshot(collections: Sequence[str] | None = None) -> Call[wire.JobInfo]:
    """Makes a snapshot of these collections, or of the whole server. The job's `details` have the snapshot's id."""
    return Call(
        "POST", path("snapshots"), body=given(collections=listed("collections", collections) if collections is not None else None)
    )


def list_snapshots(*, limit: int | None = None) -> Pages[wire.SnapshotInfo]:
    return Pages(lambda cursor: get("snapshots", limit=limit, cursor=cursor), "snapshots")


def restore_snapshot(
    snapshot: str, *, collection: str | None = None, rename_to: str | None = None, replace: bool | None = None
) -> Call[wire.JobInfo]:
    body = given(collection=collection, rename_to=rename_to, replace=replace)
    return Call("POST", path("snapshots", snapshot, "restore"), body=body)


def download_snapshot(snapshot: str) -> Call[bytes]:
    """The archive of a snapshot."""
    return get("snapshots", snapshot, "archive")


def upload_snapshot(snapshot: str, file: str) -> Call[wire.SnapshotInfo]:
    """Uploads the archive of a snapshot."""
    return Call("PUT", path("snapshots", snapshot, "archive"), headers={"content-type": "application/zstd"}, file=file)


def delete_snapshot(snapshot: str) -> Call[None]:
    return delete("snapshots", snapshot)


# Classifiers


def create_classifier(
    name: str,
    kind: Literal["knn", "mlp", "prototype"],
    *,
    idempotency_key: str | None = None,
    **options: Unpack[wire.ClassifierOptions],
) -> Call[wire.ClassifierInfo]:
    """Creates a classifier and starts the `job` that trains it."""
    return write(given(name=name, kind=kind, **options), "classifiers", key=idempotency_key)


def get_classifier(classifier: str) -> Call[wire.ClassifierInfo]:
    return get("classifiers", classifier)


def list_classifiers(*, limit: int | None = None) -> Pages[wire.ClassifierInfo]:
    return Pages(lambda cursor: get("classifiers", limit=limit, cursor=cursor), "classifiers")


def train_classifier(classifier: str) -> Call[wire.JobInfo]:
    """Trains a classifier again; the result replaces it."""
    return Call("POST", path("classifiers", classifier, "train"))


def predict(
    classifier: str,
    texts: Sequence[str] | None = None,
    *,
    documents: wire.DocumentsById | None = None,
    threshold: float | None = None,
    scores: int | None = None,
    explain: int | None = None,
) -> Flow[wire.PredictResult]:
    """Predicts the labels of any number of texts, or of stored documents, in the same order."""
    options = {"threshold": threshold, "scores": scores, "explain": explain}

    def call(what: Mapping[str, Any]) -> Call[wire.PredictResult]:
        return ask_by_post({**what, **options}, "classifiers", classifier, "predict")

    if texts is not None and documents is None:
        answers = yield from _of_all(listed("texts", texts), "/texts/", lambda part: call({"texts": part}))
    elif documents is not None and texts is None:
        rest = dict(documents)
        ids = listed("ids", documents["ids"])
        answers = yield from _of_all(ids, "/documents/ids/", lambda part: call({"documents": {**rest, "ids": part}}))
    else:
        raise ValueError("give either texts or documents")
    return {
        "predictions": [prediction for answer in answers for prediction in answer["predictions"]],
        "abstained": sum(answer["abstained"] for answer in answers),
        "took_ms": sum(answer["took_ms"] for answer in answers),
    }


def evaluate_classifier(
    classifier: str,
    *,
    examples: Sequence[wire.LabeledText] | None = None,
    documents: wire.LabeledDocuments | None = None,
    threshold: float | None = None,
) -> Call[dict[str, Any]]:
    body = {"examples": examples, "documents": documents, "threshold": threshold}
    return ask_by_post(body, "classifiers", classifier, "evaluate")


def apply_classifier(
    classifier: str,
    collection: str,
    field: str,
    *,
    probability_field: str | None = None,
    filter: wire.FilterNode | None = None,
    threshold: float | None = None,
) -> Call[wire.JobInfo]:
    """Writes labels into the metadata of a collection's documents."""
    body = given(collection=collection, field=field, probability_field=probability_field, filter=filter, threshold=threshold)
    return Call("POST", path("classifiers", classifier, "apply"), body=body)


def delete_classifier(classifier: str) -> Call[None]:
    return delete("classifiers", classifier)


# Embeddings, comparison, mining, models


def embed(texts: Sequence[str], *, input_type: InputType | None = None) -> Flow[list[list[float]]]:
    """The embeddings of any number of texts in the same order, with unit length.

    `input_type` says whether they are documents or queries.
    """

    def call(part: list[str]) -> Call[Any]:
        return ask_by_post({"input": part, "input_type": input_type}, "embeddings")

    answers = yield from _of_all(listed("texts", texts), "/input/", call)
    return [item["embedding"] for answer in answers for item in answer["data"]]


def detect_languages(texts: Sequence[str]) -> Flow[list[wire.LanguageDetection]]:
    """The languages of any number of texts in the same order; empty where it is no language that the model knows."""
    answers = yield from _of_all(listed("texts", texts), "/texts/", lambda part: ask_by_post({"texts": part}, "detect"))
    return [detection for answer in answers for detection in answer["detections"]]


def _of_all(values: Sequence[T], places: str, call: Callable[[list[T]], Call[U]]) -> Flow[list[U]]:
    """Sends texts, ids or pairs in as many requests as necessary, and returns the answers to all of them."""
    answers: list[U] = []
    done = 0
    for batch in _batches(values, BATCH_TEXTS, BATCH_BYTES):
        try:
            answers.append((yield call(batch)))
        except DragomanError as error:
            raise _counted_from(error, places, done) from error
        done += len(batch)
    return answers


def _counted_from(error: DragomanError, places: str, start: int) -> DragomanError:
    """The error with its positions in `places` counted as if there were only one request."""

    def moved(text: str) -> str:
        return re.sub(rf"^{places}(\d+)", lambda found: f"{places}{int(found[1]) + start}", text)

    violations = [
        replace(place, detail=moved(place.detail), pointer=place.pointer and moved(place.pointer)) for place in error.violations
    ]
    return replace(error, detail=moved(error.detail), violations=violations)


def compare_pairs(pairs: Sequence[wire.TextPair]) -> Flow[list[wire.PairSimilarity]]:
    """The similarity of the two texts of any number of pairs, in the same order: the cosine of their embeddings."""
    answers = yield from _of_all(pairs, "/pairs/", lambda part: ask_by_post({"pairs": part}, "similarity"))
    return [result for answer in answers for result in answer["results"]]


def compare_sets(first: Sequence[str], second: Sequence[str] | None = None) -> Call[wire.SimilarityMatrix]:
    """The similarity of each text of one list to each of another list, or of the same list."""
    return ask_by_post(
        {"first": listed("first", first), "second": listed("second", second) if second is not None else None},
        "similarity",
        "matrix",
    )


def mine_pairs(
    first: wire.MiningSide, second: wire.MiningSide, *, idempotency_key: str | None = None, **options: Unpack[wire.MiningOptions]
) -> Call[wire.JobInfo]:
    """Starts a job that looks for translation pairs between two sides."""
    return write(given(first=first, second=second, **options), "mine", key=idempotency_key)


def find_duplicates(
    collection: str, *, idempotency_key: str | None = None, **options: Unpack[wire.DuplicatesOptions]
) -> Call[wire.JobInfo]:
    """Starts a job that looks for documents of a collection that say the same."""
    return write(given(**options), "collections", collection, "duplicates", key=idempotency_key)


def list_models() -> Flow[list[wire.ModelInfo]]:
    answer = yield get("models")
    return list(answer["data"])
