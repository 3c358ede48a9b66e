"""Users who come from elsewhere: what an import may bring, and the user that it makes.

An import is trusted more than any other request: no password rule is asked, and what was verified elsewhere is
verified here.
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
from identity.domain.passwords import password_hashing
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
"""How many bytes the base64 of a hash stands for."""

_BCRYPT_SALT = re.compile(r"[./A-Za-z0-9]{22}")
_BCRYPT_HASH = re.compile(r"[./A-Za-z0-9]{31}")
_PHPASS_SHA512_HASH = re.compile(r"[A-Za-z0-9+/]{43}")


@dataclasses.dataclass(frozen=True, slots=True)
class Material:
    """What users refer to, as far as it is there: the tenant, its applications, the ids of its groups."""

    tenant: Document
    applications: Mapping[str, Document]
    group_ids: frozenset[str]


def user(wanted: Document, tenant_id: TenantId, now: Instant) -> Document:
    """The user that an import asks for, without memberships, registrations and password."""
    plain = {name: value for name, value in wanted.items() if name not in _PASSWORD_MEMBERS}
    made = users.normalize_phone_number(users.build_user(plain, UserId(wanted.get("id") or new_id()), tenant_id, now))
    made |= {name: wanted[name] for name in ("active", "verified", "insertInstant") if name in wanted}
    made["private"] = {"verifiedReason": "Import"}
    if made["verified"]:
        made.setdefault("verifiedInstant", made["insertInstant"])
    else:
        made.pop("verifiedInstant", None)
    if not made["passwordChangeRequired"]:
        made.pop("passwordChangeReason", None)
    if "password" in wanted:
        made.setdefault("passwordLastUpdateInstant", now)
    return users.with_unique_username(made)


def registration(wanted: Document, application: Document, now: Instant) -> Document:
    """A registration that a user brings; without roles of its own it gets the application's default roles."""
    made = registrations.build_registration(wanted, application, now, is_verified=wanted["verified"])
    return made | {name: wanted[name] for name in ("id", "insertInstant", "verifiedInstant") if name in wanted}


def problems(index: int, wanted: Document, made: Document, material: Material) -> list[FieldError]:
    """What is wrong with a user, whatever other users there are."""
    return [
        *(bulk_imports.at("users", index, problem) for problem in users.problems(made)),
        *_password_problems(index, wanted),
        *_registration_problems(index, wanted["registrations"], material),
        *_membership_problems(index, wanted["memberships"], material.group_ids),
    ]


def hashed(wanted: Document, default_factor: int) -> Document:
    """The password of a user who brings a hash, as it is stored."""
    scheme = wanted["encryptionScheme"]
    return {
        "scheme": scheme,
        "factor": wanted.get("factor", default_factor),
        "salt": wanted["salt"],
        "hash": wanted["password"],
    }


def _password_problems(index: int, wanted: Document) -> Iterable[FieldError]:
    if "encryptionScheme" not in wanted:
        if len(wanted.get("password", "").encode()) > password_hashing.MAXIMUM_BYTES:
            yield _error(
                index, "tooLong", "password", f"The {{}} may have at most {password_hashing.MAXIMUM_BYTES} bytes."
            )
        return
    scheme = wanted["encryptionScheme"]
    if not password_hashing.is_known(scheme):
        yield _error(index, "invalid", "encryptionScheme", "The {} is not known.")
        return
    for name, kind in (("password", "blank"), ("salt", "blank")):
        if name not in wanted:
            yield _error(index, kind, name, "You must specify the {} property.")
    if "factor" in wanted and not password_hashing.is_acceptable_factor(scheme, wanted["factor"]):
        yield _error(index, "invalid", "factor", f"The {{}} is out of range for {scheme}.")
    if "salt" in wanted and not is_salt(scheme, wanted["salt"]):
        yield _error(index, "invalid", "salt", f"The {{}} is no salt of {scheme}.")
    if "password" in wanted and not is_hash(scheme, wanted["password"]):
        yield _error(index, "invalid", "password", f"The {{}} is no hash of {scheme}.")


def is_salt(scheme: str, salt: str) -> bool:
    """Whether a password could have been hashed with this salt: what cannot be would lock its user out for good."""
    if scheme == "bcrypt":
        return _BCRYPT_SALT.fullmatch(salt) is not None
    if scheme == "argon2id":
        return _size(salt) >= 8  # what the library asks for
    return scheme.startswith("phpass") or _size(salt) >= 0


def is_hash(scheme: str, text: str) -> bool:
    """Whether this could be the hash of a password."""
    if scheme == "bcrypt":
        return _BCRYPT_HASH.fullmatch(text) is not None
    if scheme == "phpass-sha512":
        return _PHPASS_SHA512_HASH.fullmatch(text) is not None
    return _size(text) == _HASH_BYTES[scheme]


def _error(index: int, kind: str, name: str, message: str) -> FieldError:
    return bulk_imports.error("users", index, kind, name, message)


def _size(text: str) -> int:
    """How many bytes a base64 text stands for; less than none when it is no base64."""
    try:
        return len(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return -1


def _registration_problems(index: int, wanted: Iterable[Document], material: Material) -> Iterable[FieldError]:
    seen = set()
    for number, one in enumerate(wanted):
        name = f"registrations[{number}]"
        application = material.applications.get(one["applicationId"])
        if application is None:
            yield _error(index, "invalid", f"{name}.applicationId", "The {} must name an existing application.")
            continue
        if one["applicationId"] in seen:
            yield _error(
                index, "duplicate", f"{name}.applicationId", "The {} names an application for the second time."
            )
        seen.add(one["applicationId"])
        for problem in registrations.role_problems(one["roles"], application):
            yield _error(index, "invalid", f"{name}.roles", problem.message)


def _membership_problems(index: int, wanted: Iterable[Document], group_ids: frozenset[str]) -> Iterable[FieldError]:
    seen = set()
    for number, one in enumerate(wanted):
        name = f"memberships[{number}].groupId"
        if one["groupId"] not in group_ids:
            yield _error(index, "invalid", name, "The {} must name an existing group.")
        elif one["groupId"] in seen:
            yield _error(index, "duplicate", name, "The {} names a group for the second time.")
        seen.add(one["groupId"])
