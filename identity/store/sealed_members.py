"""The sealed members of documents: encrypted in MongoDB, plaintext everywhere else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from identity.call import Document
from identity.store.mongo import Collection
from identity.store.vault import Vault, is_sealed


class SealedMembers:
    """The members of a collection that are sealed, by their dotted paths; `*` stands for all items of a list or map."""

    def __init__(self, collection_name: str, paths: Sequence[str], vault: Vault) -> None:
        self._collection_name = collection_name
        self._paths = tuple(tuple(path.split(".")) for path in paths)
        self._vault = vault

    def seal(self, stored: Document) -> None:
        """Seal the members of a document in place."""
        for holder, step, context in self._texts(stored):
            # Text is sealed whatever it contains, so that a caller cannot pass off a forged sealed text.
            holder[step] = self._vault.seal(holder[step], context)

    def unseal(self, stored: Document) -> None:
        """Unseal the members of a document in place."""
        for holder, step, context in self._texts(stored):
            if is_sealed(holder[step]):
                holder[step] = self._vault.unseal(holder[step], context)

    async def reseal(self, collection: Collection) -> int:
        """Reseal values that are sealed under an older master key; returns the number of changed documents."""
        return await self._exchange_all(collection, self._is_outdated, self._vault.reseal)

    async def seal_plaintext(self, collection: Collection) -> int:
        """Seal values that an earlier version stored in plaintext; returns the number of changed documents."""
        return await self._exchange_all(collection, _is_plaintext, self._vault.seal)

    def context(self, document_id: str, path: str) -> str:
        """The context of the sealed text in a member."""
        return f"{self._collection_name}.{document_id}.{path}"

    def _texts(self, stored: Document) -> Iterator[tuple[Any, Any, str]]:
        """(object, member, context) of each text of the sealed members."""
        for path in self._paths:
            context = self.context(stored["_id"], ".".join(path))
            for holder, step, _ in _resolve(stored, path):
                if isinstance(holder[step], str):
                    yield holder, step, context

    async def _exchange_all(
        self, collection: Collection, is_wanted: Callable[[object], bool], seal: Callable[[str, str], str]
    ) -> int:
        changed = 0
        async for stored in collection.find({}):
            changed += await _exchange(collection, stored, self._values(stored, is_wanted), seal)
        return changed

    def _values(self, stored: Document, is_wanted: Callable[[object], bool]) -> Iterator[tuple[_Member, str, str]]:
        """(member, text, context) of each wanted value of the sealed members."""
        for path in self._paths:
            for holder, step, parent in _resolve(stored, path):
                if is_wanted(holder[step]):
                    yield _Member(parent, str(step)), holder[step], self.context(stored["_id"], ".".join(path))

    def _is_outdated(self, value: object) -> bool:
        return isinstance(value, str) and is_sealed(value) and not self._vault.is_current(value)


@dataclasses.dataclass(frozen=True, slots=True)
class _Member:
    """A member of a stored document; `parent` is the dotted path of the object that contains it."""

    parent: str
    name: str

    @property
    def path(self) -> str:
        """The dotted path of the member."""
        return f"{self.parent}.{self.name}" if self.parent else self.name

    @property
    def has_plain_path(self) -> bool:
        """Whether the dotted path is unambiguous: a name chosen by a caller may contain a dot or begin with `$`."""
        return bool(self.name) and "." not in self.name and not self.name.startswith("$")

    def exchange(self, document_id: str, old: str, new: str) -> tuple[Document, list[Document]]:
        """The filter and the update that replace a text in a member of any name."""
        field = {"field": {"$literal": self.name}, "input": f"${self.parent}"}
        where = {"_id": document_id, "$expr": {"$eq": [{"$getField": field}, {"$literal": old}]}}
        return where, [{"$set": {self.parent: {"$setField": {**field, "value": {"$literal": new}}}}}]


async def _exchange(
    collection: Collection,
    stored: Document,
    values: Iterable[tuple[_Member, str, str]],
    seal: Callable[[str, str], str],
) -> bool:
    """Replace each text with its sealed form, unless it was changed since it was read."""
    old, fresh, is_changed = {}, {}, False
    for member, text, context in values:
        sealed = seal(text, context)
        if member.has_plain_path:
            old[member.path], fresh[member.path] = text, sealed
        else:
            result = await collection.update_one(*member.exchange(stored["_id"], text, sealed))
            is_changed |= result.modified_count > 0
    if fresh:
        # Only these members: the rest may contain names that look like operators, or may change concurrently.
        result = await collection.update_one({"_id": stored["_id"], **old}, {"$set": fresh})
        is_changed |= result.modified_count > 0
    return is_changed


def _resolve(value: Any, path: tuple[str, ...], parent: str = "") -> Iterator[tuple[Any, Any, str]]:
    """The values at a path as (object, member, path of the object)."""
    first, rest = path[0], path[1:]
    steps: Iterable[Any] = ()
    if first == "*":
        steps = range(len(value)) if isinstance(value, list) else tuple(value) if isinstance(value, dict) else ()
    elif isinstance(value, dict) and first in value:
        steps = (first,)
    for step in steps:
        if rest:
            yield from _resolve(value[step], rest, f"{parent}.{step}" if parent else str(step))
        else:
            yield value, step, parent


def _is_plaintext(value: object) -> bool:
    return isinstance(value, str) and not is_sealed(value)


async def reseal_member(
    collection: Collection, vault: Vault, member: str, context: Callable[[str], str], where: Mapping[str, Any]
) -> int:
    """Reseal a member of the matching documents under the current master key; returns the number of changed documents.

    `context` returns the context of the sealed text by the id of its document.
    """
    changed = 0
    async for stored in collection.find(where, {member: 1}):
        if not vault.is_current(stored[member]):
            fresh = vault.reseal(stored[member], context(stored["_id"]))
            as_read = {"_id": stored["_id"], member: stored[member]}
            changed += (await collection.update_one(as_read, {"$set": {member: fresh}})).modified_count
    return changed
