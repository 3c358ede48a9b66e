"""The mapping between SCIM users and users, for tenants without lambdas of their own.

The published mapping, with nothing lost: the other core attributes are stored in `data.scim`, extensions in
`data.extensions`. Of several email addresses and phone numbers, the primary or first is that of the user. Users
have email addresses in lower case; the case that the client gave is stored in `data.scim`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from identity.call import Document
from identity.domain.objects.data_files import load_yaml
from identity.domain.scim.filters import Field, Fields
from identity.domain.users import users as user_rules
from identity.schemas import is_email

EXTERNAL_ID: Final = "externalId"
"""The member of `private` with the `externalId`, which only SCIM clients see and set."""

_NAMES: Final = {
    "formatted": "fullName",
    "familyName": "lastName",
    "givenName": "firstName",
    "middleName": "middleName",
}
_AFFIXES: Final = ("honorificPrefix", "honorificSuffix")
_ATTRIBUTES: Final = load_yaml(__file__, "user_attributes.yaml")
_EXTRAS: Final = frozenset({*_ATTRIBUTES["rest"], "x509Certificates"})
"""The core attributes that are stored in `data.scim`."""
_USER_MEMBERS: Final = ("email", "firstName", "fullName", "lastName", "middleName", "mobilePhone", "username")
_GIVEN: Final = "givenValue"
"""The member of a stored entry with the value as the client wrote it, where that of the user differs in case."""
_DATA_MEMBERS: Final = ("extensions", "scim", *_AFFIXES)

FIELDS: Final = Fields(
    {(name, sub_name): Field(member, kind) for name, sub_name, member, kind in _ATTRIBUTES["fields"]},
    rest="data.scim",
    extensions="data.extensions",
    rest_attributes=frozenset(_ATTRIBUTES["rest"].values()),
)


def unmanaged_form(stored: Document | None) -> Document:
    """Return a stored user as a PUT sends it, without what SCIM replaces; the minimum for a new user."""
    if stored is None:
        return {"data": {}}
    form = user_rules.request_form(stored)
    data = {name: value for name, value in form["data"].items() if name not in _DATA_MEMBERS}
    kept = {name: value for name, value in form.items() if name not in _USER_MEMBERS}
    return {**kept, "data": data}


def to_user(user: Document, resource: Document) -> Document:
    """Return a user with the attributes of a resource: the members of a request, and `active` if it has one."""
    name = resource.get("name", {})
    scim = {key: value for key, value in resource.items() if key in _EXTRAS}
    data = {**user["data"], **{key: name[key] for key in _AFFIXES if key in name}}
    members: Document = {member: name[key] for key, member in _NAMES.items() if key in name}
    members["username"] = resource["userName"]
    for attribute, member, accepts in (
        ("emails", "email", is_email),
        ("phoneNumbers", "mobilePhone", user_rules.is_dialable_number),
    ):
        value, entries = _without_main(resource.get(attribute, []), accepts)
        if entries:
            scim[attribute] = entries
        if value is not None:
            members[member] = value
    extensions = {key: value for key, value in resource.items() if ":" in key and value}
    if scim:
        data["scim"] = scim
    if extensions:
        data["extensions"] = extensions
    if "password" in resource:
        members["password"] = resource["password"]
    if "active" in resource:
        members["active"] = resource["active"]
    return {**user, **members, "data": data}


def to_resource(user: Document, base: Document) -> Document:
    """Return the attributes of a user with those of `base`: id, schemas, meta, groups and externalId."""
    data = user.get("data", {})
    scim = data.get("scim")
    scim = scim if isinstance(scim, dict) else {}
    extensions = data.get("extensions")
    extensions = extensions if isinstance(extensions, dict) else {}
    name = {key: user[member] for key, member in _NAMES.items() if user.get(member)}
    name |= {key: data[key] for key in _AFFIXES if data.get(key)}
    found = {
        **{key: value for key, value in scim.items() if key in _EXTRAS},
        **{key: value for key, value in extensions.items() if ":" in key},
        **base,
        "active": user["active"],
        "userName": user.get("username") or user_rules.primary_login_id(user) or user["id"],
        "name": name,
        "emails": _with_main(scim.get("emails"), user.get("email"), "work"),
        "phoneNumbers": _with_main(scim.get("phoneNumbers"), user.get("mobilePhone"), "mobile"),
    }
    return {key: value for key, value in found.items() if value not in ({}, [])}


def with_external_id(private: Document, external_id: str | None) -> Document:
    """Return the private members of a user or group with an `externalId`, or without one."""
    rest = {name: value for name, value in private.items() if name != EXTERNAL_ID}
    return rest if external_id is None else {**rest, EXTERNAL_ID: external_id}


def _without_main(entries: list[Document], accepts: Callable[[str], bool]) -> tuple[str | None, list[Document]]:
    """Return the value of the primary or first entry, and the entries without it, except for its case."""
    main = next((entry for entry in entries if entry.get("primary")), entries[0] if entries else {})
    value = str(main.get("value", "")).removeprefix("tel:")
    if not value or not accepts(value):
        return None, entries
    rest = {name: kept for name, kept in main.items() if name != "value"}
    if value != user_rules.login_key(value):
        rest[_GIVEN] = value
    return value, [rest if entry is main else entry for entry in entries]


def _with_main(entries: Any, value: str | None, default_type: str) -> list[Document]:
    """Return stored entries with the current value of the user in the one that lacks it."""
    listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    found = [_with_value(entry, value) for entry in listed if "value" in entry or value]
    is_shown = value is None or any("value" not in entry for entry in listed)
    return found if is_shown else [*found, {"primary": True, "type": default_type, "value": value}]


def _with_value(entry: Document, value: str | None) -> Document:
    """Return an entry with its value: the user's, in the case that the client gave, if it has none of its own."""
    if "value" in entry:
        return entry
    given, rest = entry.get(_GIVEN), {name: kept for name, kept in entry.items() if name != _GIVEN}
    is_same = (
        isinstance(given, str) and value is not None and user_rules.login_key(given) == user_rules.login_key(value)
    )
    return {**rest, "value": given if is_same else value}
