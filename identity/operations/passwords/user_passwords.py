"""Passwords of users: validate, hash, verify and rehash them."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.domain.login import breach_detection as breach_rules
from identity.domain.passwords import password_hashing, password_policy
from identity.domain.passwords.password_hashing import StoredPassword
from identity.domain.passwords.password_policy import PasswordRules
from identity.domain.users import users
from identity.errors import FieldError
from identity.instants import Instant, later
from identity.operations.passwords import breach_detection
from identity.services import Services

_FACTORS = {"argon2id": 2, "bcrypt": 12, "salted-hmac-sha256": 1, "phpass-md5": 2048, "phpass-sha512": 2048}
_OTHER_FACTOR = 24_000

PATH = "user.password"
"""The default member on which the errors of a password are reported."""


@dataclasses.dataclass(frozen=True, slots=True)
class NewPassword:
    """A new password, with the scheme and factor to hash it with."""

    password: str = dataclasses.field(repr=False)
    scheme: str
    factor: int


def requested_password(tenant: Document, request: Document) -> NewPassword | None:
    """Return the password of a user request, under the scheme that it names or the tenant's; None if it has none."""
    if "password" not in request:
        return None
    configured = tenant["passwordEncryptionConfiguration"]
    scheme = request.get("encryptionScheme", configured["encryptionScheme"])
    default = (
        configured["encryptionSchemeFactor"] if scheme == configured["encryptionScheme"] else default_factor(scheme)
    )
    return NewPassword(request["password"], scheme, request.get("factor", default))


def under_tenant_scheme(tenant: Document, password: str) -> NewPassword:
    """Return a password to be hashed with the tenant's scheme."""
    configured = tenant["passwordEncryptionConfiguration"]
    return NewPassword(password, configured["encryptionScheme"], configured["encryptionSchemeFactor"])


def default_factor(scheme: str) -> int:
    """Return the default factor of a scheme."""
    return _FACTORS.get(scheme, _OTHER_FACTOR)


def policy_problems(tenant: Document, user: Document, password: NewPassword, path: str = PATH) -> list[FieldError]:
    """Return the violations of the tenant's policy, apart from those of earlier passwords, reported on `path`."""
    if not password_hashing.is_known(password.scheme):
        return [FieldError.invalid("user.encryptionScheme", "is not known")]
    errors = password_policy.problems(
        password.password,
        PasswordRules.of(tenant),
        path,
        scheme=password.scheme,
        login_ids=users.login_ids(user).values(),
    )
    if not password_hashing.is_acceptable_factor(password.scheme, password.factor):
        errors.append(FieldError.invalid("user.factor", f"is out of range for {password.scheme}"))
    return errors


def form_problems(tenant: Document, user: Document, password: str, confirmation: str) -> list[FieldError]:
    """Return all errors of a form with a new password and its confirmation that need no lookup."""
    errors = policy_problems(tenant, user, under_tenant_scheme(tenant, password), "password")
    if password != confirmation:
        errors.append(FieldError.of("doNotMatch", "passwordConfirm", "The two passwords do not match."))
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
    """Return the errors of replacing a password: too early, used before, or breached.

    The minimum age does not apply to a change that `is_forced`.
    """
    age = tenant["minimumPasswordAge"]
    changed = stored.get("passwordLastUpdateInstant")
    errors = []
    is_recent = changed is not None and later(Instant(changed), seconds=age["seconds"]) > now
    if age["enabled"] and is_recent and not is_forced:
        errors.append(FieldError.of("tooYoung", path, "The password was changed too recently."))
    for used in _remembered_passwords(stored)[: PasswordRules.of(tenant).remembered]:
        if await services.runtime.passwords.verify(password.password, used, tenant_id=tenant["id"]):
            errors.append(FieldError.of("previouslyUsed", path, "The password was used before."))
            break
    return errors or await breach_detection.problems(services, tenant, stored, password.password, path)


async def with_password(
    services: Services, tenant: Document, user: Document, password: NewPassword, now: Instant
) -> Document:
    """Return the user with the hashed password; the previous one is remembered if the tenant requires it."""
    hashed = await services.runtime.passwords.hash(
        password.password, password.scheme, password.factor, tenant_id=tenant["id"]
    )
    private = {name: value for name, value in user["private"].items() if name != "previousPasswords"}
    if (earlier := PasswordRules.of(tenant).remembered - 1) > 0:
        private["previousPasswords"] = [dataclasses.asdict(used) for used in _remembered_passwords(user)[:earlier]]
    private["password"] = dataclasses.asdict(hashed)
    unmarked = {name: value for name, value in user.items() if not name.startswith("breachedPassword")}
    changed = {**unmarked, "passwordLastUpdateInstant": now, "private": private}
    # `change_problems` checked the password before.
    return (
        breach_rules.with_breach_status(changed, breach_rules.NOT_BREACHED, now)
        if breach_detection.is_enabled(services, tenant)
        else changed
    )


async def is_correct(services: Services, tenant: Document, user: Document | None, password: str) -> bool:
    """Whether the password is the user's. Takes the same time for a user who does not exist or has no password.

    The same holds for an incorrect password that is hashed under another scheme than the tenant's: a fast imported hash
    would otherwise reveal that the user exists.
    """
    configured = tenant["passwordEncryptionConfiguration"]
    tenant_scheme = configured["encryptionScheme"], configured["encryptionSchemeFactor"]
    stored = None if user is None else password_hashing.stored_password(user)
    pool, tenant_id = services.runtime.passwords, tenant["id"]
    if stored is not None and await pool.verify(password, stored, tenant_id=tenant_id):
        return True
    if stored is None or (stored.scheme, stored.factor) != tenant_scheme:
        await pool.verify_decoy(password, *tenant_scheme, tenant_id=tenant_id)
    return False


async def rehash(services: Services, tenant: Document, user: Document, password: str) -> None:
    """Rehash the password of a login with the tenant's scheme, if `modifyEncryptionSchemeOnLogin` is enabled."""
    configured = tenant["passwordEncryptionConfiguration"]
    old = user["private"]["password"]
    scheme, factor = configured["encryptionScheme"], configured["encryptionSchemeFactor"]
    if not configured["modifyEncryptionSchemeOnLogin"] or (old["scheme"], old["factor"]) == (scheme, factor):
        return
    hashed = await services.runtime.passwords.hash(password, scheme, factor, tenant_id=tenant["id"])
    fresh = dataclasses.asdict(hashed)
    await services.directory.users.rehash_password(user["tenantId"], user["id"], old, fresh)


def _remembered_passwords(user: Document) -> list[StoredPassword]:
    """Return the remembered passwords, the current one first."""
    present = password_hashing.stored_password(user)
    earlier = [StoredPassword(**stored) for stored in user["private"].get("previousPasswords", [])]
    return earlier if present is None else [present, *earlier]
