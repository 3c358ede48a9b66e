"""Frozen dataclasses and the documents that they are stored as, whose members have the same names in camel case."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from identity.call import Document

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

_NAME = "stored name"


def stored_as(name: str, **options: Any) -> Any:
    """Return a dataclass field whose stored name is not its own in camel case."""
    return dataclasses.field(metadata={_NAME: name}, **options)


def to_document(value: DataclassInstance) -> Document:
    """Return the stored form of a value."""
    return {stored_name: getattr(value, name) for name, stored_name in _names(type(value))}


def from_document(kind: type[T], stored: Mapping[str, Any]) -> T:
    """Return the value that `to_document` stored; absent members have their defaults, and arrays are tuples."""
    members = {}
    for name, stored_name in _names(kind):
        if (member := stored.get(stored_name)) is not None:
            members[name] = tuple(member) if isinstance(member, list) else member
    return kind(**members)


@functools.cache
def _names(kind: type[DataclassInstance]) -> list[tuple[str, str]]:
    """Return the name of each field with its stored name."""
    return [(field.name, _stored_name(field)) for field in dataclasses.fields(kind)]


def _stored_name(field: dataclasses.Field[Any]) -> str:
    first, *others = field.name.split("_")
    return str(field.metadata.get(_NAME) or first + "".join(word.title() for word in others))
