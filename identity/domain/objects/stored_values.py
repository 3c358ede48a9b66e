"""Frozen dataclasses and the documents that they are stored as, whose members have the same names in camel case."""

from __future__ import annotations

import dataclasses
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
    return {_stored_name(field): getattr(value, field.name) for field in dataclasses.fields(value)}


def from_document(kind: type[T], stored: Document) -> T:
    """Return the value that `to_document` stored; absent members have their defaults, and arrays are tuples."""
    found = ((field.name, stored.get(_stored_name(field))) for field in dataclasses.fields(kind))
    members = {name: member for name, member in found if member is not None}
    return kind(**{name: tuple(member) if isinstance(member, list) else member for name, member in members.items()})


def _stored_name(field: dataclasses.Field[Any]) -> str:
    first, *others = field.name.split("_")
    return str(field.metadata.get(_NAME) or first + "".join(word.title() for word in others))
