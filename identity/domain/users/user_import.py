"""Rules of imported users.

An import is trusted more than other requests: password rules do not apply, and verified login ids stay verified.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Final

from identity.call import Document
from identity.domain.objects import bulk_imports
from identity.domain.passwords import password_hashing, phc_strings
from identity.domain.users import registrations, users
from identity.errors import FieldError
from identity.ids import TenantId, UserId, new_id
from identity.instants import Instant

_PASSWORD_MEMBERS = frozenset({"password", "salt", "factor", "encryptionScheme"})
_HASH_BYTES: Final[Mapping[str, int]] = {
    "argon2id": 32,
    "salted-pbkdf2-hmac-sha256": 32,
    "salted-pbkdf2-hmac-sha256-512": 64,
    "salted-pbkdf2-hmac-sha512-512": 64,
    "salted-md5": 16,
    "salted-sha256": 32,
    "salted-hmac-sha256": 32,
    "phpass-md5": 16,
}
"""The length in bytes of a Base64-decoded hash, by scheme."""

_BCRYPT_SALT = re.compile(r"[./A-Za-z0-9]{22}")
_BCRYPT_HASH = re.compile(r"[./A-Za-z0-9]{31}")
_PHPASS_SHA512_HASH = re.compile(r"[A-Za-z0-9+/]{43}")


@dataclasses.dataclass(frozen=True, slots=True)
class ReferencedObjects:
    """The existing objects that users refer to: the tenant, its applications, the ids of its groups."""

    tenant: Document
    applications: Mapping[str, Document]
    group_ids: frozenset[str]


def build_user(requested: Document, tenant_id: TenantId, now: Instant) -> Document:
    """Build an imported user without memberships, registrations and password."""
    plain = {name: value for name, value in requested.items() if name not in _PASSWORD_MEMBERS}
    user = users.normalize_phone_number(
        users.build_user(plain, UserId(requested.get("id") or new_id()), tenant_id, now)
    )
    user |= {name: requested[name] for name in ("active", "verified", "insertInstant") if name in requested}
    user["private"] = {"verifiedReason": "Import"}
    if user["verified"]:
        user.setdefault("verifiedInstant", user["insertInstant"])
    else:
        user.pop("verifiedInstant", None)
    if not user["passwordChangeRequired"]:
        user.pop("passwordChangeReason", None)
    if "password" in requested:
        user.setdefault("passwordLastUpdateInstant", now)
    return users.with_unique_username(user)


def build_registration(requested: Document, application: Document, now: Instant) -> Document:
    """Build an imported registration; without roles it gets the default roles of the application."""
    built = registrations.build_registration(requested, application, now, is_verified=requested["verified"])
    return built | {name: requested[name] for name in ("id", "insertInstant", "verifiedInstant") if name in requested}


def problems(index: int, requested: Document, built: Document, referenced: ReferencedObjects) -> list[FieldError]:
    """Return the errors of a user that do not depend on other users."""
    return [
        *(bulk_imports.at("users", index, problem) for problem in users.problems(built)),
        *_password_problems(index, requested),
        *_registration_problems(index, requested["registrations"], referenced),
        *_membership_problems(index, requested["memberships"], referenced.group_ids),
    ]


def stored_password(requested: Document, default_factor: int) -> Document:
    """Return the stored form of an imported password hash; bcrypt in a PHC string becomes the scheme bcrypt."""
    scheme = requested["encryptionScheme"]
    if scheme == phc_strings.SCHEME:
        parsed = phc_strings.parse(requested["password"])
        if parsed.algorithm != "bcrypt":
            return {"scheme": scheme, "factor": parsed.factor, "salt": "", "hash": requested["password"]}
        salt, hash_ = parsed.salt.decode(), parsed.hash.decode()
        return {"scheme": parsed.scheme, "factor": parsed.factor, "salt": salt, "hash": hash_}
    return {
        "scheme": scheme,
        "factor": requested.get("factor", default_factor),
        "salt": requested["salt"],
        "hash": requested["password"],
    }


def _password_problems(index: int, requested: Document) -> Iterable[FieldError]:
    if "encryptionScheme" not in requested:
        if len(requested.get("password", "").encode()) > password_hashing.MAXIMUM_BYTES:
            yield _error(
                index, "tooLong", "password", f"The {{}} may have at most {password_hashing.MAXIMUM_BYTES} bytes."
            )
        return
    scheme = requested["encryptionScheme"]
    if scheme == phc_strings.SCHEME:
        yield from _phc_problems(index, requested)
        return
    if not password_hashing.is_known(scheme):
        yield _error(index, "invalid", "encryptionScheme", "The {} is not known.")
        return
    for name, kind in (("password", "blank"), ("salt", "blank")):
        if name not in requested:
            yield _error(index, kind, name, "You must specify the {} property.")
    if "factor" in requested and not password_hashing.is_acceptable_factor(scheme, requested["factor"]):
        yield _error(index, "invalid", "factor", f"The {{}} is out of range for {scheme}.")
    if "salt" in requested and not is_salt(scheme, requested["salt"]):
        yield _error(index, "invalid", "salt", f"The {{}} is not a salt of {scheme}.")
    if "password" in requested and not is_hash(scheme, requested["password"]):
        yield _error(index, "invalid", "password", f"The {{}} is not a hash of {scheme}.")


def _phc_problems(index: int, requested: Document) -> Iterable[FieldError]:
    for name in ("factor", "salt"):
        if name in requested:
            yield _error(index, "invalid", name, "The {} is a part of a PHC string.")
    if "password" not in requested:
        yield _error(index, "blank", "password", "You must specify the {} property.")
        return
    try:
        phc_strings.parse(requested["password"])
    except ValueError as error:
        yield _error(index, "invalid", "password", f"The {{}} {error}.")


def hash_cost(requested: Document) -> tuple[str, int] | None:
    """Return the scheme and factor that an imported hash costs; None without a factor, or for a malformed hash."""
    scheme = requested.get("encryptionScheme")
    if scheme == phc_strings.SCHEME:
        try:
            parsed = phc_strings.parse(requested.get("password", ""))
        except ValueError:
            return None
        return parsed.scheme, parsed.factor
    return None if scheme is None or "factor" not in requested else (scheme, requested["factor"])


def is_salt(scheme: str, salt: str) -> bool:
    """Whether a scheme can hash with this salt. An impossible salt would lock its user out permanently."""
    if scheme == "bcrypt":
        return _BCRYPT_SALT.fullmatch(salt) is not None
    if scheme == "argon2id":
        return _decoded_length(salt) >= 8  # required by the library
    return scheme.startswith("phpass") or _decoded_length(salt) >= 0


def is_hash(scheme: str, text: str) -> bool:
    """Whether a text has the form of a hash of this scheme."""
    if scheme == "bcrypt":
        return _BCRYPT_HASH.fullmatch(text) is not None
    if scheme == "phpass-sha512":
        return _PHPASS_SHA512_HASH.fullmatch(text) is not None
    return _decoded_length(text) == _HASH_BYTES[scheme]


def _error(index: int, kind: str, name: str, message: str) -> FieldError:
    return bulk_imports.error("users", index, kind, name, message)


def _decoded_length(text: str) -> int:
    """Return the length of Base64-decoded bytes; -1 if the text is not Base64."""
    try:
        return len(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return -1


def _registration_problems(
    index: int, requested: Iterable[Document], referenced: ReferencedObjects
) -> Iterable[FieldError]:
    seen = set()
    for number, one in enumerate(requested):
        name = f"registrations[{number}]"
        application = referenced.applications.get(one["applicationId"])
        if application is None:
            yield _error(index, "invalid", f"{name}.applicationId", "The {} must name an existing application.")
            continue
        if one["applicationId"] in seen:
            yield _error(index, "duplicate", f"{name}.applicationId", "The {} names an application a second time.")
        seen.add(one["applicationId"])
        for problem in registrations.role_problems(one["roles"], application):
            yield _error(index, "invalid", f"{name}.roles", problem.message)


def _membership_problems(index: int, requested: Iterable[Document], group_ids: frozenset[str]) -> Iterable[FieldError]:
    seen = set()
    for number, one in enumerate(requested):
        name = f"memberships[{number}].groupId"
        if one["groupId"] not in group_ids:
            yield _error(index, "invalid", name, "The {} must name an existing group.")
        elif one["groupId"] in seen:
            yield _error(index, "duplicate", name, "The {} names a group a second time.")
        seen.add(one["groupId"])
