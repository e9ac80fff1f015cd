"""Filters on metadata as LangChain and LlamaIndex write them, as filters of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from . import wire

#: Names that a filter reads as the document's own fields rather than as metadata.
OWN_FIELDS = ("id", "language", "created_at", "updated_at")
#: What a filter in the API's format has; an operator stands next to `field`.
NODES = ("and", "or", "not", "field")
COMPARISONS = {f"${name}": name for name in ("eq", "ne", "gt", "gte", "lt", "lte", "in", "exists")}


def metadata_field(path: str) -> str:
    """The field of a filter that is this path in the metadata."""
    return f"metadata.{path}" if path in OWN_FIELDS else path


def metadata_filter(filter: Mapping[str, Any]) -> wire.FilterNode:
    """A filter as LangChain's users write it: `{"year": 2026}`, `{"year": {"$gte": 2025}, "$or": […]}`. A filter in the API's
    format stays as it is.
    """
    if filter and filter.keys() <= wire.FilterNode.__annotations__.keys() and any(name in filter for name in NODES):
        return cast(wire.FilterNode, filter)
    conditions = [condition for key, value in filter.items() for condition in _conditions(key, value)]
    return conditions[0] if len(conditions) == 1 else {"and": conditions}


def _conditions(key: str, value: Any) -> list[wire.FilterNode]:
    if key == "$and":
        return [{"and": [metadata_filter(part) for part in value]}]
    if key == "$or":
        return [{"or": [metadata_filter(part) for part in value]}]
    if key == "$not":
        return [{"not": metadata_filter(value)}]
    # An empty dictionary must not match everything: the server refuses it as a value.
    compared = value if value and isinstance(value, Mapping) else {"$eq": value}
    return [_condition(metadata_field(key), operator, operand) for operator, operand in compared.items()]


def _condition(field: str, operator: str, operand: Any) -> wire.FilterNode:
    if operator == "$nin":
        return {"not": {"field": field, "in": operand}}
    if operator not in COMPARISONS:
        raise ValueError(f"there is no operator {operator}; the operators are {', '.join([*COMPARISONS, '$nin'])}")
    return cast(wire.FilterNode, {"field": field, COMPARISONS[operator]: operand})
