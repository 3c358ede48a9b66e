"""Passwords of users: judged by the tenant's rules, hashed, verified, remembered."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.domain.login import breach_detection as breach_rules
from identity.domain.passwords import password_hashing, password_policy
from identity.domain.passwords.password_hashing import StoredPassword
from identity.domain.users import users
from identity.errors import FieldError
from identity.instants import Instant, later
from identity.operations.passwords import breach_detection
from identity.services import Services

_FACTORS = {"argon2id": 2, "bcrypt": 12, "salted-hmac-sha256": 1, "phpass-md5": 2048, "phpass-sha512": 2048}
_OTHER_FACTOR = 24_000

PATH = "user.password"
"""Where what is wrong with a password is told, unless a caller has another name for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class NewPassword:
    """A password that was asked for, and how it is to be kept."""

    password: str = dataclasses.field(repr=False)
    scheme: str
    factor: int


def requested_password(tenant: Document, request: Document) -> NewPassword | None:
    """The password in a user request, under the scheme it names or else the tenant's; None when it has none."""
    if "password" not in request:
        return None
    ours = tenant["passwordEncryptionConfiguration"]
    scheme = request.get("encryptionScheme", ours["encryptionScheme"])
    default = ours["encryptionSchemeFactor"] if scheme == ours["encryptionScheme"] else default_factor(scheme)
    return NewPassword(request["password"], scheme, request.get("factor", default))


def under_tenant_scheme(tenant: Document, password: str) -> NewPassword:
    """A password that is to be kept as the tenant has it."""
    ours = tenant["passwordEncryptionConfiguration"]
    return NewPassword(password, ours["encryptionScheme"], ours["encryptionSchemeFactor"])


def default_factor(scheme: str) -> int:
    """The cost of a scheme where nobody says another."""
    return _FACTORS.get(scheme, _OTHER_FACTOR)


def policy_problems(tenant: Document, user: Document, password: NewPassword, path: str = PATH) -> list[FieldError]:
    """What is wrong with a new password, apart from the user's past; told at `path`."""
    if not password_hashing.is_known(password.scheme):
        message = "The [user.encryptionScheme] is not known."
        return [FieldError.of("invalid", "user.encryptionScheme", message)]
    errors = password_policy.problems(
        password.password,
        tenant["passwordValidationRules"],
        path,
        scheme=password.scheme,
        login_ids=users.login_ids(user).values(),
    )
    if not password_hashing.is_acceptable_factor(password.scheme, password.factor):
        message = f"The [user.factor] is out of range for {password.scheme}."
        errors.append(FieldError.of("invalid", "user.factor", message))
    return errors


async def change_problems(
    services: Services,
    tenant: Document,
    stored: Document,
    password: NewPassword,
    now: Instant,
    path: str = PATH,
    *,
    is_forced: bool = False,
) -> list[FieldError]:
    """What is against a new password: a change too recent, its being used before, or its having become known.

    A change that is `is_forced` on the user is never too early.
    """
    age, rules = tenant["minimumPasswordAge"], tenant["passwordValidationRules"]["rememberPreviousPasswords"]
    changed = stored.get("passwordLastUpdateInstant")
    errors = []
    is_young = changed is not None and later(Instant(changed), seconds=age["seconds"]) > now
    if age["enabled"] and is_young and not is_forced:
        errors.append(FieldError.of("tooYoung", path, "The password was changed too recently."))
    if rules["enabled"]:
        for used in _remembered_passwords(stored)[: rules["count"]]:
            if await services.passwords.verify(password.password, used):
                errors.append(FieldError.of("previouslyUsed", path, "The password was used before."))
                break
    return errors or await breach_detection.problems(services, tenant, stored, password.password, path)


async def with_password(
    services: Services, tenant: Document, user: Document, password: NewPassword, now: Instant
) -> Document:
    """The user with this password, hashed, and the one before remembered where the tenant asks for it."""
    hashed = await services.passwords.hash(password.password, password.scheme, password.factor)
    rules = tenant["passwordValidationRules"]["rememberPreviousPasswords"]
    private = {name: value for name, value in user["private"].items() if name != "previousPasswords"}
    if rules["enabled"] and rules["count"] > 1:
        private["previousPasswords"] = [
            dataclasses.asdict(used) for used in _remembered_passwords(user)[: rules["count"] - 1]
        ]
    private["password"] = dataclasses.asdict(hashed)
    told = {name: value for name, value in user.items() if not name.startswith("breachedPassword")}
    changed = {**told, "passwordLastUpdateInstant": now, "private": private}
    # Whoever sets a password has asked `breaches.problems` before.
    return (
        breach_rules.with_breach_status(changed, breach_rules.NOT_BREACHED, now)
        if breach_detection.is_enabled(services, tenant)
        else changed
    )


async def is_correct(services: Services, tenant: Document, user: Document | None, password: str) -> bool:
    """Whether this is the user's password; takes its time for a user who does not exist or has no password.

    So does a wrong password that is kept under another scheme than the tenant's: an imported hash is often compared in
    no time, which would tell that there is a user.
    """
    ours = tenant["passwordEncryptionConfiguration"]
    usual = ours["encryptionScheme"], ours["encryptionSchemeFactor"]
    stored = None if user is None else password_hashing.stored_password(user)
    if stored is not None and await services.passwords.verify(password, stored):
        return True
    if stored is None or (stored.scheme, stored.factor) != usual:
        await services.passwords.verify_decoy(password, *usual)
    return False


async def rehash(services: Services, tenant: Document, user: Document, password: str) -> None:
    """After a good login: keep the password under the tenant's scheme from now on, where the tenant asks for it."""
    ours = tenant["passwordEncryptionConfiguration"]
    old = user["private"]["password"]
    scheme, factor = ours["encryptionScheme"], ours["encryptionSchemeFactor"]
    if not ours["modifyEncryptionSchemeOnLogin"] or (old["scheme"], old["factor"]) == (scheme, factor):
        return
    fresh = dataclasses.asdict(await services.passwords.hash(password, scheme, factor))
    await services.users.rehash_password(user["tenantId"], user["id"], old, fresh)


def _remembered_passwords(user: Document) -> list[StoredPassword]:
    """The passwords that are remembered, the present one first."""
    present = password_hashing.stored_password(user)
    earlier = [StoredPassword(**kept) for kept in user["private"].get("previousPasswords", [])]
    return earlier if present is None else [present, *earlier]
