"""Users: what makes a valid one, what is derived from it, and what of it may be seen by whom.

login id          a value that a user may log in with: the email, the unique username, the phone number
unique username   the username, with a suffix where the tenant makes usernames unique by itself
terms             the lower-cased texts that the one-term search finds a user by

Everything private (password, derived look-up keys, reasons) stands under the one member `private`.
"""

from __future__ import annotations

import base64
import binascii
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any

from identity.call import Document
from identity.domain.two_factor import totp
from identity.errors import FieldError
from identity.ids import TenantId, UserId, new_text, same_secret
from identity.instants import Instant

INTERNAL_CONNECTOR = "e3306678-a53a-4964-9040-1c96f36dda72"
"""The connector of users whose passwords are kept here."""

LOGIN_ID_TYPES = ("email", "username")
"""The types of login id that are tried when a caller names none."""

SEARCH_FIELDS = ("firstName", "lastName", "fullName", "email", "username")
"""The fields that a search for one term looks into."""

_NO_LOGIN_ID = (
    "You must specify either the [user.email] or [user.username] property."
    " If you are emailing the user you must specify the [user.email]."
)
_SENT = frozenset({"password", "salt", "factor", "encryptionScheme"})
_KEPT = (
    "active",
    "breachedPasswordLastCheckedInstant",
    "breachedPasswordStatus",
    "cleanSpeakId",
    "connectorId",
    "id",
    "identities",
    "insertInstant",
    "lastLoginInstant",
    "memberships",
    "passwordChangeReason",
    "passwordLastUpdateInstant",
    "registrations",
    "tenantId",
    "uniqueUsername",
    "verified",
    "verifiedInstant",
)
_METHOD_ID = string.ascii_uppercase + string.digits
_NEEDED_BY_METHOD = {"authenticator": "secret", "email": "email", "sms": "mobilePhone"}


def build_user(wanted: Document, user_id: UserId, tenant_id: TenantId, now: Instant) -> Document:
    """A new, active user out of what a create asks for; without password, registrations and verification."""
    return {
        **({"passwordChangeReason": "Administrative"} if wanted.get("passwordChangeRequired") else {}),
        **_without(wanted, _SENT),
        "active": True,
        "connectorId": INTERNAL_CONNECTOR,
        "id": user_id,
        "insertInstant": now,
        "lastUpdateInstant": now,
        "memberships": [],
        "private": {},
        "registrations": [],
        "tenantId": tenant_id,
        "twoFactor": with_method_ids(wanted["twoFactor"]),
        "verified": False,
    }


def apply_update(stored: Document, wanted: Document, now: Instant) -> Document:
    """The stored user with everything that an update may change taken from `wanted`."""
    kept = {name: stored[name] for name in _KEPT if name in stored}
    user = {**_without(wanted, _SENT), **kept, "private": dict(stored["private"])}
    user["lastUpdateInstant"] = max(now, stored["lastUpdateInstant"] + 1)
    user["twoFactor"] = with_method_ids(with_stored_secrets(wanted["twoFactor"], stored["twoFactor"]))
    if not user["passwordChangeRequired"]:
        user.pop("passwordChangeReason", None)
    elif not stored["passwordChangeRequired"]:
        user["passwordChangeReason"] = "Administrative"
    return user


def request_form(stored: Document) -> Document:
    """A stored user as a PUT would send it, which is what a patch is applied to.

    Secrets are left out: a JSON Patch `copy` could otherwise carry one into a member that is shown.
    """
    form = _without(without_secrets(stored), {*_KEPT, "lastUpdateInstant", "private"})
    form["twoFactor"]["recoveryCodes"] = []
    return form


def with_stored_secrets(wanted: Document, stored: Document) -> Document:
    """Two-factor settings in which methods sent back without their secret keep the one they have.

    Recovery codes are never shown, so that none being sent says nothing: they stay as long as a method does.
    """
    secrets = {method["id"]: method["secret"] for method in stored["methods"] if "secret" in method}
    methods = [
        {**method, "secret": secrets[method["id"]]}
        if method["method"] == "authenticator" and "secret" not in method and method.get("id") in secrets
        else method
        for method in wanted["methods"]
    ]
    codes = wanted["recoveryCodes"] or (stored["recoveryCodes"] if methods else [])
    return {"methods": methods, "recoveryCodes": codes}


def with_method_ids(two_factor: Document) -> Document:
    """Two-factor settings in which every method has an id (4 of A-Z and 0-9), and an authenticator its settings."""
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
    """What is wrong with a user whatever else is stored."""
    errors = []
    if not any(user.get(name) for name in ("email", "username", "phoneNumber")):
        errors += [FieldError.of("blank", f"user.{name}", _NO_LOGIN_ID) for name in ("email", "username")]
    if "phoneNumber" in user and not is_e164_number(user["phoneNumber"]):
        errors.append(
            FieldError.of("invalidPhone", "user.phoneNumber", "The [user.phoneNumber] must be an E.164 number.")
        )
    if not is_dialable_number(user.get("mobilePhone")):
        errors.append(FieldError.of("invalid", "user.mobilePhone", "The [user.mobilePhone] is not a phone number."))
    for field in ("username", *SEARCH_FIELDS[:3], "middleName"):
        if re.search(r"[\x00-\x1f\x7f]", user.get(field, "")):
            errors.append(FieldError.of("invalid", f"user.{field}", f"The [user.{field}] holds a control character."))
    return errors + _method_problems(user["twoFactor"]["methods"])


def blocked_domain_problems(user: Document, blocked_domains: Iterable[str]) -> list[FieldError]:
    """The email's domain is one that the tenant does not let register."""
    domain = user.get("email", "").rpartition("@")[2]
    if domain and domain in {blocked.lower() for blocked in blocked_domains}:
        return [FieldError.of("blocked", "user.email", f"The email domain [{domain}] may not be used here.")]
    return []


def normalize_phone_number(user: Document) -> Document:
    """The user with its phone number in E.164 form, as far as separators go."""
    if "phoneNumber" not in user:
        return user
    return {**user, "phoneNumber": re.sub(r"[\s().-]", "", user["phoneNumber"])}


def is_e164_number(text: str) -> bool:
    """Whether a text is an E.164 number."""
    return re.fullmatch(r"\+[1-9][0-9]{6,14}", text) is not None


def with_unique_username(user: Document, suffix: str = "") -> Document:
    """The user with the unique username that belongs to its username."""
    if "username" not in user:
        return _without(user, {"uniqueUsername"})
    return {**user, "uniqueUsername": user["username"] + suffix}


def username_suffix(separator: str, number_of_digits: int) -> str:
    """A random ending for a username that the tenant makes unique."""
    return separator + new_text(number_of_digits, string.digits)


def with_verified_reason(user: Document, reason: str, now: Instant) -> Document:
    """The user with the given reason for its email being verified or not."""
    is_verified = reason in {"Skipped", "Trusted", "Implicit", "Completed", "Administrative", "Import"}
    changed = {**user, "verified": is_verified, "private": {**user["private"], "verifiedReason": reason}}
    if is_verified:
        changed.setdefault("verifiedInstant", now)
    return changed


def with_verified_phone(user: Document, reason: str, now: Instant) -> Document:
    """The user whose phone number is verified; it is remembered for this very number."""
    proof = {"value": user["phoneNumber"], "verifiedInstant": now, "verifiedReason": reason}
    return {**user, "private": {**user["private"], "verifiedPhone": proof}}


def has_verified_phone(user: Document) -> bool:
    """Whether the phone number that the user has now is verified."""
    proof = user["private"].get("verifiedPhone")
    return proof is not None and proof["value"] == user.get("phoneNumber")


def is_verification_pending(user: Document) -> bool:
    """Whether the user's email waits to be verified."""
    return not user["verified"] and user["private"].get("verifiedReason") == "Pending"


def with_verified_email(stored: Document, reason: str, now: Instant) -> Document:
    """A stored user whose email becomes verified, ready to be written."""
    return next_version(with_verified_reason(stored, reason, now), now)


def next_version(user: Document, now: Instant) -> Document:
    """A stored user that was changed, ready to be written in place of itself."""
    return with_derived_members({**user, "lastUpdateInstant": max(now, user["lastUpdateInstant"] + 1)})


def with_derived_members(user: Document) -> Document:
    """The user with its identities and look-up keys brought up to date; to be called before every write."""
    private = _without(user["private"], {"usernameKey", "login", "terms"})
    if "uniqueUsername" in user:
        private["usernameKey"] = login_key(user["uniqueUsername"])
    if login := primary_login_id(user):
        private["login"] = login_key(login)
    private["terms"] = sorted({user[name].lower() for name in (*SEARCH_FIELDS, "uniqueUsername") if user.get(name)})
    registrations = sorted(user["registrations"], key=lambda registration: str(registration["applicationId"]))
    return {**user, "identities": identities(user), "private": private, "registrations": registrations}


def identities(user: Document) -> list[Document]:
    """The login ids as a list; the instants of one that did not change stay. Sorted by instant, type and value."""
    before = {(identity["type"], identity["value"]): identity for identity in user.get("identities", [])}
    found = []
    for kind, value in login_ids(user).items():
        identity: Document = {
            "insertInstant": user["lastUpdateInstant"],
            "lastUpdateInstant": user["lastUpdateInstant"],
            **before.get((kind, value), {}),
            **_identity(user, kind, value),
        }
        if identity != before.get((kind, value)):
            identity["lastUpdateInstant"] = user["lastUpdateInstant"]
        found.append(identity)
    return sorted(found, key=lambda identity: (identity["insertInstant"], identity["type"], identity["value"]))


def login_ids(user: Document) -> dict[str, str]:
    """The values a user may log in with, by type."""
    fields = {"email": "email", "phoneNumber": "phoneNumber", "username": "uniqueUsername"}
    return {kind: user[field] for kind, field in fields.items() if user.get(field)}


def login_key(login_id: str) -> str:
    """The form in which login ids are compared."""
    return login_id.strip().lower()


def primary_login_id(user: Document) -> str:
    """What a user is shown as having logged in with: email, else unique username, else phone number."""
    return str(user.get("email") or user.get("uniqueUsername") or user.get("phoneNumber") or "")


def email_address(user: Document) -> str | None:
    """Where a user is written to: the email or, without one, `data.email`, by which nobody logs in."""
    told = user.get("email") or user["data"].get("email")
    return told if isinstance(told, str) and told else None


def may_log_in_as(user: Document, login_id: str, types: Iterable[str]) -> str | None:
    """The type of login id by which `login_id` is this user, or None; a moderated username is no login id."""
    key = login_key(login_id)
    wanted = frozenset(types)
    for kind, value in login_ids(user).items():
        is_open = kind != "username" or user["usernameStatus"] == "ACTIVE"
        if kind in wanted and is_open and login_key(value) == key:
            return kind
    return None


def without_secrets(user: Document) -> Document:
    """The user as events carry it: no password, no secrets, no credentials, no look-up keys."""
    shown = _without(user, {"private", *_SENT})
    methods = [_without(method, {"secret"}) for method in user["twoFactor"]["methods"]]
    shown["twoFactor"] = {"methods": methods, "recoveryCodes": []}
    shown["registrations"] = [_without(registration, {"authenticationToken"}) for registration in user["registrations"]]
    return shown


def without_private_members(user: Document) -> Document:
    """The user before its schema decides what is shown: no recovery codes."""
    return {**_without(user, {"private"}), "twoFactor": {**user["twoFactor"], "recoveryCodes": []}}


def changed_identities(before: Document, after: Document) -> list[tuple[str, str, str]]:
    """(type, value before, value after) of every login id that changed from one value to another."""
    old, new_ids = login_ids(before), login_ids(after)
    return [
        (kind, old[kind], new_ids[kind]) for kind in sorted(old.keys() & new_ids.keys()) if old[kind] != new_ids[kind]
    ]


def shared_login_ids(user: Document, other: Document) -> dict[str, str]:
    """The login ids of `user` that `other` has too, by type."""
    theirs = {kind: login_key(value) for kind, value in login_ids(other).items()}
    return {kind: value for kind, value in login_ids(user).items() if theirs.get(kind) == login_key(value)}


def duplicate_problems(user: Document, others: Iterable[Document]) -> list[FieldError]:
    """The login ids of `user` that others have, as errors: `inactive` when the other user is deactivated."""
    errors = []
    for other in others:
        for kind, value in shared_login_ids(user, other).items():
            code = "duplicate" if other["active"] else "inactive"
            errors.append(FieldError.of(code, f"user.{kind}", f"A User with {kind} = [{value}] already exists."))
    return errors


def is_authentication_token(user: Document, application: Document, text: str) -> bool:
    """Whether a text is the token by which the user may log in to an application in place of the password."""
    registration = find_registration(user, application["id"])
    token = None if registration is None else registration.get("authenticationToken")
    is_enabled = application["authenticationTokenConfiguration"]["enabled"]
    return bool(is_enabled and token) and same_secret(str(token), text)


def find_registration(user: Document, application_id: str) -> Document | None:
    """The user's registration for an application."""
    for registration in user["registrations"]:
        if registration["applicationId"] == application_id:
            found: Document = registration
            return found
    return None


def _identity(user: Document, kind: str, value: str) -> Document:
    identity: Document
    if kind == "phoneNumber" and has_verified_phone(user):
        proof = user["private"]["verifiedPhone"]
        identity = {"verified": True} | {name: proof[name] for name in ("verifiedInstant", "verifiedReason")}
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
    """Whether a text can be dialled: digits with the usual separators, perhaps an extension."""
    return text is None or re.fullmatch(r"\+?[0-9(][0-9 ()./-]{3,30}( ?(x|ext\.?) ?[0-9]{1,6})?", text) is not None


def _method_problems(methods: list[Document]) -> list[FieldError]:
    errors = []
    seen = set()
    for index, method in enumerate(methods):
        path = f"user.twoFactor.methods[{index}]"
        needed = _NEEDED_BY_METHOD[method["method"]]
        if not method.get(needed):
            errors.append(
                FieldError.of("blank", f"{path}.{needed}", f"You must specify the [{path}.{needed}] property.")
            )
        elif needed == "secret" and not is_totp_secret(method["secret"]):
            errors.append(
                FieldError.of("invalid", f"{path}.secret", f"The [{path}.secret] must be base64 of 16 to 128 bytes.")
            )
        if method.get("id") in seen:
            errors.append(FieldError.of("duplicate", f"{path}.id", f"The [{path}.id] occurs twice."))
        seen.add(method.get("id"))
    return errors


def is_totp_secret(text: str) -> bool:
    """Whether a text is the Base64 of a secret that an authenticator may have."""
    try:
        return 16 <= len(base64.b64decode(text, validate=True)) <= 128
    except (binascii.Error, ValueError):
        return False


def _without(document: Mapping[str, Any], names: Iterable[str]) -> Document:
    dropped = frozenset(names)
    return {name: value for name, value in document.items() if name not in dropped}
