"""The types and arguments of the package are those of openapi/openapi.json, member by member."""

from __future__ import annotations

import inspect
import json
from typing import Any, get_type_hints

import pytest
from typing_extensions import is_typeddict

from conftest import ROOT
from dragoman import operations, wire

SCHEMAS: dict[str, Any] = json.loads((ROOT / "openapi" / "openapi.json").read_text())["components"]["schemas"]

#: Types of the package that have another name in the API, and the members of the request that are separate arguments.
REQUESTS = {
    "CollectionOptions": ("CreateCollectionRequest", {"name"}),
    "CollectionChange": ("ChangeCollectionRequest", set()),
    "DocumentPatch": ("PatchDocumentRequest", set()),
    "DocumentsChange": ("UpdateDocumentsRequest", {"filter", "ids"}),
    "SearchRequest": ("SearchDocumentsRequest", set()),
    "SearchOptions": ("SearchDocumentsRequest", {"query"}),
    "HitOptions": ("RecommendDocumentsRequest", {"positive", "negative"}),
    "ClassifierOptions": ("CreateClassifierRequest", {"name", "kind"}),
    "LabeledText": ("LabeledTextInput", set()),
    "LabeledDocuments": ("LabeledDocumentsInput", set()),
    "DocumentsById": ("DocumentsByIdInput", set()),
    "MiningOptions": ("MinePairsRequest", {"first", "second"}),
    "DuplicatesOptions": ("FindDuplicatesRequest", set()),
    "ModelInfo": ("LoadedModel", set()),
}
#: Lines of streams, whose members the API description gives only in prose.
LINES = {"LineResult", "MinedPair", "MinedSentence", "DuplicateCluster"}

TYPES = {name: value for name, value in vars(wire).items() if is_typeddict(value) and name not in LINES | {"TypedDict"}}


@pytest.mark.parametrize("name", TYPES)
def test_a_type_has_the_members_of_its_schema(name: str) -> None:
    schema, apart = REQUESTS.get(name, (name, set()))
    assert set(get_type_hints(TYPES[name])) | apart == set(SCHEMAS[schema]["properties"])


@pytest.mark.parametrize("name", [name for name in TYPES if name in SCHEMAS and "required" in SCHEMAS[name]])
def test_a_type_requires_what_its_schema_requires(name: str) -> None:
    assert TYPES[name].__required_keys__ == set(SCHEMAS[name]["required"])


@pytest.mark.parametrize(
    ("operation", "schema", "apart"),
    [
        (operations.predict, "PredictRequest", {"classifier"}),
        (operations.evaluate_classifier, "EvaluateRequest", {"classifier"}),
        (operations.apply_classifier, "ApplyClassifierRequest", {"classifier"}),
        (operations.restore_snapshot, "RestoreSnapshotRequest", {"snapshot"}),
        (operations.count_facets, "CountFacetsRequest", {"collection"}),
        (operations.compare_sets, "CompareSetsRequest", set()),
    ],
)
def test_an_operation_has_the_members_of_its_request(operation: Any, schema: str, apart: set[str]) -> None:
    assert set(inspect.signature(operation).parameters) - apart == set(SCHEMAS[schema]["properties"])
