"""Rules of users: validation, derived members, and the forms for events and the API.

login id          a value that a user may log in with: the email, the unique username, the phone number
unique username   the username, with a suffix where the tenant makes usernames unique by itself
terms             the lower-case texts that a bare term of a search matches

Members that no response contains (password, look-up keys, verification reasons) are stored under `private`.
"""

from __future__ import annotations

import base64
import binascii
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any

from identity.call import Document
from identity.domain.objects import data_terms
from identity.domain.objects.search_expressions import Field, Fields, Kind, fields_of
from identity.domain.two_factor import totp
from identity.errors import FieldError
from identity.ids import TenantId, UserId, new_text, same_secret
from identity.instants import Instant

INTERNAL_CONNECTOR = "e3306678-a53a-4964-9040-1c96f36dda72"
"""The connector of users whose passwords this service stores."""

LOGIN_ID_TYPES = ("email", "username")
"""The types of login id that are searched if a request names none."""

TYPED_LOGIN_ID_TYPES = (*LOGIN_ID_TYPES, "phoneNumber")
"""The types of login id that users may type into a page, and clients into a password grant."""

_SEPARATORS = re.compile(r"[\s().-]")

SEARCH_FIELDS = ("firstName", "lastName", "fullName", "email", "username")
"""The fields that the one-term search covers."""

_SORT = {
    **{name: name for name in ("birthDate", "email", "fullName", "insertInstant", "lastLoginInstant", "phoneNumber")},
    "id": "_id",
    "login": "private.login",
    "tenantId": "tenantId",
    "username": "username",
}
_INSTANTS = ("insertInstant", "lastLoginInstant", "lastUpdateInstant", "verifiedInstant")
INDEX_FIELDS = Fields(
    searched={
        **fields_of(
            {
                Kind.TEXT: (
                    *("firstName", "lastName", "fullName", "middleName", "username", "usernameStatus"),
                    *("mobilePhone", "preferredLanguages", "timezone", "breachedPasswordStatus"),
                ),
                Kind.LOWER_CASE: ("email", "login", "parentEmail", "phoneNumber", "uniqueUsername"),
                Kind.DATE: ("birthDate",),
                Kind.FLAG: ("active", "passwordChangeRequired", "verified"),
                Kind.ID: ("connectorId", "id", "tenantId"),
                Kind.INSTANT: (*_INSTANTS, "breachedPasswordLastCheckedInstant", "passwordLastUpdateInstant"),
            },
            {"id": "_id", "login": "private.login", "uniqueUsername": "private.usernameKey"},
        ),
        **fields_of(
            {
                Kind.TEXT: ("preferredLanguages", "roles", "timezone", "username", "usernameStatus"),
                Kind.FLAG: ("verified",),
                Kind.ID: ("applicationId", "id"),
                Kind.INSTANT: _INSTANTS,
            },
            {},
            "registrations",
        ),
        **fields_of({Kind.ID: ("groupId", "id", "userId"), Kind.INSTANT: ("insertInstant",)}, {}, "memberships"),
        **fields_of(
            {Kind.TEXT: ("email", "id", "method", "mobilePhone", "name"), Kind.FLAG: ("lastUsed",)},
            {},
            "twoFactor.methods",
        ),
    },
    data={
        "data": Field("data", Kind.DATA, "data"),
        "registrations.data": Field("registrations.data", Kind.DATA, "data", "registrations"),
        "memberships.data": Field("memberships.data", Kind.DATA, "data", "memberships"),
    },
    sort=_SORT,
    termed=frozenset(SEARCH_FIELDS),
    optional=frozenset(_SORT.values()) - {"_id", "insertInstant", "tenantId"},
)
"""The fields by which users can be searched and sorted."""

_NO_LOGIN_ID = (
    "You must specify either the [user.email] or [user.username] property."
    " If you are emailing the user you must specify the [user.email]."
)
_PASSWORD_MEMBERS = frozenset({"password", "salt", "factor", "encryptionScheme"})
_IMMUTABLE = (
    "active", "breachedPasswordLastCheckedInstant", "breachedPasswordStatus", "cleanSpeakId", "connectorId", "id",
    "identities", "insertInstant", "lastLoginInstant", "memberships", "passwordChangeReason",
    "passwordLastUpdateInstant", "registrations", "tenantId", "uniqueUsername", "verified", "verifiedInstant",
)  # fmt: skip
_METHOD_ID = string.ascii_uppercase + string.digits
_REQUIRED_BY_METHOD = {"authenticator": "secret", "email": "email", "sms": "mobilePhone"}


def build_user(requested: Document, user_id: UserId, tenant_id: TenantId, now: Instant) -> Document:
    """Build a new, active user from a create request, without password, registrations and verification."""
    return {
        **({"passwordChangeReason": "Administrative"} if requested.get("passwordChangeRequired") else {}),
        **_without(requested, _PASSWORD_MEMBERS),
        "active": True,
        "connectorId": INTERNAL_CONNECTOR,
        "id": user_id,
        "insertInstant": now,
        "lastUpdateInstant": now,
        "memberships": [],
        "private": {},
        "registrations": [],
        "tenantId": tenant_id,
        "twoFactor": with_method_ids(requested["twoFactor"]),
        "verified": False,
    }


def apply_update(stored: Document, requested: Document, now: Instant) -> Document:
    """Return the stored user with the mutable members of `requested`."""
    kept = {name: stored[name] for name in _IMMUTABLE if name in stored}
    user = {**_without(requested, _PASSWORD_MEMBERS), **kept, "private": dict(stored["private"])}
    user["lastUpdateInstant"] = max(now, stored["lastUpdateInstant"] + 1)
    user["twoFactor"] = with_method_ids(with_stored_secrets(requested["twoFactor"], stored["twoFactor"]))
    if not user["passwordChangeRequired"]:
        user.pop("passwordChangeReason", None)
    elif not stored["passwordChangeRequired"]:
        user["passwordChangeReason"] = "Administrative"
    return user


def request_form(stored: Document) -> Document:
    """Return a stored user as a PUT sends it, to which patches are applied.

    Secrets are omitted; a JSON Patch `copy` could otherwise move one into a visible member.
    """
    form = _without(without_secrets(stored), {*_IMMUTABLE, "lastUpdateInstant", "private"})
    form["twoFactor"]["recoveryCodes"] = []
    return form


def with_stored_secrets(requested: Document, stored: Document) -> Document:
    """Return two-factor settings in which methods sent without their secret keep the stored one.

    Responses never contain recovery codes, so omitted codes stay as long as a method does.
    """
    secrets = {method["id"]: method["secret"] for method in stored["methods"] if "secret" in method}
    methods = [
        {**method, "secret": secrets[method["id"]]}
        if method["method"] == "authenticator" and "secret" not in method and method.get("id") in secrets
        else method
        for method in requested["methods"]
    ]
    codes = requested["recoveryCodes"] or (stored["recoveryCodes"] if methods else [])
    return {"methods": methods, "recoveryCodes": codes}


def with_method_ids(two_factor: Document) -> Document:
    """Return two-factor settings in which every method has an id of 4 characters, and an authenticator its settings."""
    methods = [
        {
            **({"authenticator": dict(totp.DEFAULTS)} if method["method"] == "authenticator" else {}),
            **method,
            "id": method.get("id") or new_text(4, _METHOD_ID),
            "lastUsed": method.get("lastUsed", False),
        }
        for method in two_factor["methods"]
    ]
    return {**two_factor, "methods": methods}


def problems(user: Document) -> list[FieldError]:
    """Return the errors of a user that do not depend on other objects."""
    errors = []
    if not any(user.get(name) for name in ("email", "username", "phoneNumber")):
        errors += [FieldError.of("blank", f"user.{name}", _NO_LOGIN_ID) for name in ("email", "username")]
    if "phoneNumber" in user and not is_e164_number(user["phoneNumber"]):
        errors.append(FieldError.invalid("user.phoneNumber", "must be an E.164 number", "invalidPhone"))
    if not is_dialable_number(user.get("mobilePhone")):
        errors.append(FieldError.invalid("user.mobilePhone", "is not a phone number"))
    for field in ("username", *SEARCH_FIELDS[:3], "middleName"):
        if re.search(r"[\x00-\x1f\x7f]", user.get(field, "")):
            errors.append(FieldError.invalid(f"user.{field}", "contains a control character"))
    return errors + _method_problems(user["twoFactor"]["methods"])


def blocked_domain_problems(user: Document, blocked_domains: Iterable[str]) -> list[FieldError]:
    """Return an error if the tenant blocks the domain of the email."""
    domain = user.get("email", "").rpartition("@")[2]
    if domain and domain in {blocked.lower() for blocked in blocked_domains}:
        return [FieldError.of("blocked", "user.email", f"The email domain [{domain}] may not be used here.")]
    return []


def normalize_phone_number(user: Document) -> Document:
    """Return the user with separators removed from its phone number."""
    if "phoneNumber" not in user:
        return user
    return {**user, "phoneNumber": _SEPARATORS.sub("", user["phoneNumber"])}


def is_e164_number(text: str) -> bool:
    """Whether a text is an E.164 number."""
    return re.fullmatch(r"\+[1-9][0-9]{6,14}", text) is not None


def with_unique_username(user: Document, suffix: str = "") -> Document:
    """Return the user with the unique username derived from its username."""
    if "username" not in user:
        return _without(user, {"uniqueUsername"})
    return {**user, "uniqueUsername": user["username"] + suffix}


def username_suffix(separator: str, number_of_digits: int) -> str:
    """Return a random suffix for a username that the tenant makes unique."""
    return separator + new_text(number_of_digits, string.digits)


def with_verified_reason(user: Document, reason: str, now: Instant) -> Document:
    """Return the user with this reason for its email being verified or not."""
    is_verified = reason in {"Skipped", "Trusted", "Implicit", "Completed", "Administrative", "Import"}
    changed = {**user, "verified": is_verified, "private": {**user["private"], "verifiedReason": reason}}
    if is_verified:
        changed.setdefault("verifiedInstant", now)
    return changed


def with_verified_phone(user: Document, reason: str, now: Instant) -> Document:
    """Return the user with its phone number verified; a change of the number ends the verification."""
    verification = {"value": user["phoneNumber"], "verifiedInstant": now, "verifiedReason": reason}
    return {**user, "private": {**user["private"], "verifiedPhone": verification}}


def has_verified_phone(user: Document) -> bool:
    """Whether the current phone number of the user is verified."""
    verification = user["private"].get("verifiedPhone")
    return verification is not None and verification["value"] == user.get("phoneNumber")


def is_verification_pending(user: Document) -> bool:
    """Whether the verification of the user's email is pending."""
    return not user["verified"] and user["private"].get("verifiedReason") == "Pending"


def with_verified_email(stored: Document, reason: str, now: Instant) -> Document:
    """Return the next version of a stored user with its email verified."""
    return next_version(with_verified_reason(stored, reason, now), now)


def next_version(user: Document, now: Instant) -> Document:
    """Return the next version of a changed user, ready to replace the stored one."""
    return with_derived_members({**user, "lastUpdateInstant": max(now, user["lastUpdateInstant"] + 1)})


def with_derived_members(user: Document) -> Document:
    """Return the user with current identities and look-up keys; call it before every write."""
    private = _without(user["private"], {"usernameKey", "login", "terms", "dataTerms"})
    if "uniqueUsername" in user:
        private["usernameKey"] = login_key(user["uniqueUsername"])
    if login := primary_login_id(user):
        private["login"] = login_key(login)
    private["terms"] = sorted({user[name].lower() for name in (*SEARCH_FIELDS, "uniqueUsername") if user.get(name)})
    private["dataTerms"] = data_terms.of(user.get("data", {}))
    registrations = sorted(user["registrations"], key=lambda registration: str(registration["applicationId"]))
    return {**user, "identities": identities(user), "private": private, "registrations": registrations}


def identities(user: Document) -> list[Document]:
    """Return the login ids as a list, sorted by instant, type and value; unchanged ones keep their instants."""
    before = {(identity["type"], identity["value"]): identity for identity in user.get("identities", [])}
    current = []
    for kind, value in login_ids(user).items():
        identity: Document = {
            "insertInstant": user["lastUpdateInstant"],
            "lastUpdateInstant": user["lastUpdateInstant"],
            **before.get((kind, value), {}),
            **_identity(user, kind, value),
        }
        if identity != before.get((kind, value)):
            identity["lastUpdateInstant"] = user["lastUpdateInstant"]
        current.append(identity)
    return sorted(current, key=lambda identity: (identity["insertInstant"], identity["type"], identity["value"]))


def login_ids(user: Document) -> dict[str, str]:
    """Return the login ids of a user by type."""
    fields = {"email": "email", "phoneNumber": "phoneNumber", "username": "uniqueUsername"}
    return {kind: user[field] for kind, field in fields.items() if user.get(field)}


def login_key(login_id: str, kind: str | None = None) -> str:
    """Return the form in which login ids are compared, of a type if one is given: phone numbers have no separators."""
    return _SEPARATORS.sub("", login_id) if kind == "phoneNumber" else login_id.strip().lower()


def limit_key(login_id: str) -> str:
    """Return the form in which uses of a login id are counted, the same for all spellings of a phone number."""
    number = login_key(login_id, "phoneNumber")
    return number if is_e164_number(number) else login_key(login_id)


def primary_login_id(user: Document) -> str:
    """Return the login id to display: email, else unique username, else phone number."""
    return str(user.get("email") or user.get("uniqueUsername") or user.get("phoneNumber") or "")


def email_address(user: Document) -> str | None:
    """Return the address for mails: the email or, without one, `data.email`, which is no login id."""
    address = user.get("email") or user["data"].get("email")
    return address if isinstance(address, str) and address else None


def may_log_in_as(user: Document, login_id: str, types: Iterable[str]) -> str | None:
    """Return the type of the user's login id that matches, or None; a moderated username never matches."""
    allowed = frozenset(types)
    for kind, value in login_ids(user).items():
        is_usable = kind != "username" or user["usernameStatus"] == "ACTIVE"
        if kind in allowed and is_usable and login_key(value, kind) == login_key(login_id, kind):
            return kind
    return None


def without_secrets(user: Document) -> Document:
    """Return the user as events contain it: without password, secrets, credentials and look-up keys."""
    shown = _without(user, {"private", *_PASSWORD_MEMBERS})
    methods = [_without(method, {"insertInstant", "secret"}) for method in user["twoFactor"]["methods"]]
    shown["twoFactor"] = {"methods": methods, "recoveryCodes": []}
    shown["registrations"] = [_without(registration, {"authenticationToken"}) for registration in user["registrations"]]
    return shown


def without_private_members(user: Document) -> Document:
    """Return the user without private members and recovery codes; its schema removes further members."""
    return {**_without(user, {"private"}), "twoFactor": {**user["twoFactor"], "recoveryCodes": []}}


def changed_identities(before: Document, after: Document) -> list[tuple[str, str, str]]:
    """Return (type, value before, value after) for every login id whose value changed."""
    old, new_ids = login_ids(before), login_ids(after)
    return [
        (kind, old[kind], new_ids[kind]) for kind in sorted(old.keys() & new_ids.keys()) if old[kind] != new_ids[kind]
    ]


def shared_login_ids(user: Document, other: Document) -> dict[str, str]:
    """Return the login ids of `user` that `other` has as well, by type."""
    theirs = {kind: login_key(value) for kind, value in login_ids(other).items()}
    return {kind: value for kind, value in login_ids(user).items() if theirs.get(kind) == login_key(value)}


def duplicate_problems(user: Document, others: Iterable[Document]) -> list[FieldError]:
    """Return an error for each login id that another user has: `inactive` if that user is deactivated."""
    errors = []
    for other in others:
        for kind, value in shared_login_ids(user, other).items():
            code = "duplicate" if other["active"] else "inactive"
            errors.append(FieldError.of(code, f"user.{kind}", f"A User with {kind} = [{value}] already exists."))
    return errors


def is_authentication_token(user: Document, application: Document, text: str) -> bool:
    """Whether a text is the user's authentication token, which replaces the password for an application."""
    registration = find_registration(user, application["id"])
    token = None if registration is None else registration.get("authenticationToken")
    is_enabled = application["authenticationTokenConfiguration"]["enabled"]
    return bool(is_enabled and token) and same_secret(str(token), text)


def find_registration(user: Document, application_id: str) -> Document | None:
    """Return the user's registration for an application, or None."""
    for registration in user["registrations"]:
        if registration["applicationId"] == application_id:
            found: Document = registration
            return found
    return None


def _identity(user: Document, kind: str, value: str) -> Document:
    identity: Document
    if kind == "phoneNumber" and has_verified_phone(user):
        verification = user["private"]["verifiedPhone"]
        identity = {"verified": True} | {name: verification[name] for name in ("verifiedInstant", "verifiedReason")}
    elif kind != "email":
        identity = {"verified": False, "verifiedReason": "Unverifiable" if kind == "username" else "Disabled"}
    else:
        identity = {"verified": user["verified"], "verifiedReason": user["private"].get("verifiedReason", "Disabled")}
        if "verifiedInstant" in user:
            identity["verifiedInstant"] = user["verifiedInstant"]
    identity |= {"type": kind, "value": value, "displayValue": value, "primary": True, "moderationStatus": "ACTIVE"}
    if kind == "username":
        identity |= {"displayValue": user["username"], "moderationStatus": user["usernameStatus"]}
    return identity


def is_dialable_number(text: str | None) -> bool:
    """Whether a text can be dialled: digits with the usual separators and an optional extension."""
    return text is None or re.fullmatch(r"\+?[0-9(][0-9 ()./-]{3,30}( ?(x|ext\.?) ?[0-9]{1,6})?", text) is not None


def _method_problems(methods: list[Document]) -> list[FieldError]:
    errors = []
    seen = set()
    for index, method in enumerate(methods):
        path = f"user.twoFactor.methods[{index}]"
        required_member = _REQUIRED_BY_METHOD[method["method"]]
        if not method.get(required_member):
            errors.append(FieldError.missing(f"{path}.{required_member}", "blank"))
        elif required_member == "secret" and not is_totp_secret(method["secret"]):
            errors.append(FieldError.invalid(f"{path}.secret", "must be base64 of 16 to 128 bytes"))
        if method.get("id") in seen:
            errors.append(FieldError.invalid(f"{path}.id", "is used twice", "duplicate"))
        seen.add(method.get("id"))
    return errors


def is_totp_secret(text: str) -> bool:
    """Whether a text is Base64 of 16 to 128 bytes, the permitted length of a TOTP secret."""
    try:
        return 16 <= len(base64.b64decode(text, validate=True)) <= 128
    except (binascii.Error, ValueError):
        return False


def _without(document: Mapping[str, Any], names: Iterable[str]) -> Document:
    dropped = frozenset(names)
    return {name: value for name, value in document.items() if name not in dropped}
