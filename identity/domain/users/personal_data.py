"""Erasure of the data of deleted users from logs and events; ids, types and the instant of an event remain."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from identity.call import Document

ERASED: Final = "[erased]"
"""Replaces erased text."""

AUDIT_TEXTS: Final = ("insertUser", "message", "reason", "newValue", "oldValue", "data.userId")
"""The members of rows of the audit log that may name a user."""

DELETIONS: Final = frozenset({"user.delete", "user.delete.complete"})
"""The events that announce the deletion of a user: they keep their body until no delivery of it is pending."""

SHARED: Final = (
    "audit-log.create", "event-log.create", "group.member.add", "group.member.add.complete", "group.member.remove",
    "group.member.remove.complete", "group.member.update", "group.member.update.complete", "user.bulk.create",
    "user.loginId.duplicate.create", "user.loginId.duplicate.update",
)  # fmt: skip
"""The events that may contain data of users other than the linked object."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z.-]{0,63}")
_FREE_FORM: Final = frozenset({"data", "info"})
"""Members that are dropped whatever they contain: free-form data, and the origin of a request."""
_SHORTEST_ADDRESS: Final = 5
_WORD: Final = re.compile(
    r"[^\s\"<>,;:()\[\]\\/=@+][^\s\"<>,;:()\[\]\\/=@]{0,63}+@[\w-]+(?:\.[\w-]+)*"  # an email address
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # an id
    r"|\+\d{4,}"  # a phone number
)
_ESCAPE: Final = re.compile(r"\\[nrtbf]")
"""Escaped white space in JSON, whose letter would become a part of the word."""


@dataclasses.dataclass(frozen=True, slots=True)
class Person:
    """A deleted user: the id, the email addresses and phone numbers, and the IP addresses of the last logins."""

    tenant_id: str
    user_id: str
    addresses: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    ip_addresses: tuple[str, ...] = dataclasses.field(default=(), repr=False)


def addresses_of(user: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the email addresses and phone numbers of a user, which identify the user in free text.

    Names and usernames do not: they may be words of any text.
    """
    identities = user.get("identities", ())
    methods = user.get("twoFactor", {}).get("methods", ())
    found = [
        *(user.get(name) for name in ("email", "phoneNumber", "mobilePhone")),
        *(entry.get("value") for entry in identities if entry.get("type") in {"email", "phoneNumber"}),
        *(method.get(name) for method in methods for name in ("email", "mobilePhone")),
    ]
    return tuple(dict.fromkeys(text for text in found if isinstance(text, str) and len(text) >= _SHORTEST_ADDRESS))


class Traces:
    """What identifies deleted users in stored text.

    Texts are split into ids and addresses, which are looked up: the cost does not depend on the number of users.
    """

    def __init__(self, persons: Iterable[Person]) -> None:
        self._persons = tuple(persons)
        self.user_ids = frozenset(person.user_id for person in self._persons)
        self.ip_addresses = frozenset(address for person in self._persons for address in person.ip_addresses)
        self.addresses = frozenset(address.lower() for person in self._persons for address in person.addresses)
        self._words = self.user_ids | self.addresses
        odd = [re.escape(text) for text in sorted(self.addresses) if _WORD.fullmatch(text) is None]
        self._odd = re.compile("|".join(odd), re.IGNORECASE) if odd else None
        """Addresses with other characters, such as phone numbers with spaces."""

    def by_tenant(self) -> dict[str, Traces]:
        """Return the traces of each tenant."""
        return {tenant_id: self.of_tenant(tenant_id) for tenant_id in {person.tenant_id for person in self._persons}}

    def of_tenant(self, tenant_id: str | None) -> Traces:
        """Return the traces that apply to a row: those of its tenant, or all if the row belongs to none."""
        if tenant_id is None or all(person.tenant_id == tenant_id for person in self._persons):
            return self
        return Traces(person for person in self._persons if person.tenant_id == tenant_id)

    def pattern(self) -> str:
        """Return a regular expression that finds candidates in MongoDB, ignoring case; `are_in` decides."""
        return "|".join(re.escape(text) for text in sorted(self._words))

    def are_in(self, text: str) -> bool:
        """Return whether a text, or a JSON text, contains an id or an address."""
        plain = _ESCAPE.sub(" ", text) if "\\" in text else text
        is_found = any(_normal(word[0]) in self._words for word in _WORD.finditer(plain))
        return is_found or (self._odd is not None and self._odd.search(plain) is not None)

    def ids_are_in(self, text: str) -> bool:
        """Return whether a text contains an id."""
        return any(word[0].lower() in self.user_ids for word in _WORD.finditer(text))

    def without_addresses(self, value: Any) -> Any:
        """Return a JSON value with the addresses in its texts erased."""
        if isinstance(value, str):
            text = value if self._odd is None else self._odd.sub(ERASED, value)
            return _WORD.sub(self._erased, text)
        if isinstance(value, Mapping):
            return {name: self.without_addresses(member) for name, member in value.items()}
        return [self.without_addresses(item) for item in value] if isinstance(value, list) else value

    def _erased(self, word: re.Match[str]) -> str:
        return ERASED if _normal(word[0]) in self.addresses else word[0]


def without_details(event: Mapping[str, Any]) -> Document:
    """Return an event with only its type, its instant, and the ids that it contains."""
    kept = {name: event[name] for name in ("createInstant", "type") if name in event}
    return {**_ids_of(event), **kept}


def redacted_event(event: Mapping[str, Any], traces: Traces) -> Document:
    """Return an event that may name several users without the data of the deleted ones."""
    is_of_address = event.get("info", {}).get("ipAddress") in traces.ip_addresses
    if not is_of_address and not traces.are_in(json.dumps(event, ensure_ascii=False)):
        return dict(event)
    if is_of_address:
        event = {name: value for name, value in event.items() if name != "info"}
    if event["type"] == "event-log.create":
        row = event["eventLog"]
        return {**event, "eventLog": {**row, "message": redacted_message(row["message"], traces)}}
    if event["type"] == "audit-log.create":
        row = event["auditLog"]
        is_named = traces.are_in(json.dumps(row, ensure_ascii=False))
        return {**without_details(event), "auditLog": redacted_audit_row(row, traces)} if is_named else dict(event)
    redacted: Document = _redacted(event, traces)
    return {**redacted, **{name: event[name] for name in ("createInstant", "type") if name in event}}


def redacted_audit_row(row: Document, traces: Traces) -> Document:
    """Return a row of the audit log without the data of deleted users; one that names none is unchanged.

    A row about a deleted user keeps what the service wrote itself: method, path, status and caller. In a row that a
    deleted user caused, the id replaces the name, and the IP address goes.
    """
    if not traces.are_in(json.dumps(row, ensure_ascii=False)):
        return row
    data: Mapping[str, Any] = row["data"] if isinstance(row.get("data"), dict) else {}
    kept = {name: value for name, value in row.items() if name not in {"data", "newValue", "oldValue"}}
    # The erasure may be repeated: the id may be in place of the name already.
    ids = (data.get("userId"), row.get("insertUser"))
    author = next((user_id for user_id in ids if user_id in traces.user_ids), None)
    if author is not None or traces.are_in(str(row.get("insertUser", ""))):
        kept["insertUser"] = author or ERASED
        data = {name: value for name, value in data.items() if name != "ipAddress"}
    if "requestId" in data and row.get("message") == f"{data.get('method')} {data.get('path')}":
        return kept | {"data": traces.without_addresses(data), "message": traces.without_addresses(row["message"])}
    return kept | {name: ERASED for name in ("message", "reason") if name in row} | {"data": {}}


def redacted_message(message: str, traces: Traces) -> str:
    """Return a message of the event log: erased if it names the id of a deleted user, else without the addresses.

    Users choose their addresses. An address alone therefore never erases what else a message says.
    """
    return ERASED if traces.ids_are_in(message) else traces.without_addresses(message)


def _redacted(value: Any, traces: Traces) -> Any:
    """Return a JSON value in which the objects that name a deleted user contain ids only; the others are unchanged."""
    if isinstance(value, Mapping):
        if any(isinstance(member, str) and traces.are_in(member) for member in value.values()):
            return _ids_of(value)
        return {name: _redacted(member, traces) for name, member in value.items()}
    if isinstance(value, list):
        return [_redacted(item, traces) for item in value]
    return ERASED if isinstance(value, str) and traces.are_in(value) else value


def _ids_of(value: Mapping[str, Any]) -> Document:
    return dict(_kept_members(value))


def _kept_members(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, member in value.items():
        if name in _FREE_FORM:
            continue
        kept = _kept(name, member)
        if kept not in (None, {}, []):
            yield name, kept


def _kept(name: str, member: Any) -> Any:
    """Return what remains of a member; None for nothing."""
    if isinstance(member, Mapping):
        return _ids_of(member)
    if isinstance(member, list):
        items = [_kept(name.removesuffix("s"), item) for item in member]
        return [item for item in items if item not in (None, {}, [])]
    is_id = name == "id" or name.endswith("Id")
    if isinstance(member, str):
        is_kept = _UUID.fullmatch(member) if is_id else name == "type" and _TYPE.fullmatch(member)
        return member if is_kept else None
    return member if is_id and isinstance(member, int) else None


def _normal(word: str) -> str:
    return word.strip("'").lower()
