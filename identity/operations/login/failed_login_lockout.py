"""Account lockout after failed logins, by the user action that the tenant configures.

An attempt is counted before its password is compared. The failure that reaches the limit applies the action. From then
on no attempt reveals whether its password was correct, and each one extends the lock: otherwise guessing could
continue. A login id that no user has is locked in the same way, so that a lock does not reveal that the user exists.
"""

from __future__ import annotations

import dataclasses

from identity import write_guard
from identity.call import Call, Document
from identity.domain.login.login_outcomes import AccountLocked
from identity.domain.objects import stored_values
from identity.domain.user_actions import action_logs as action_log_rules
from identity.domain.user_actions import user_actions
from identity.domain.users import users
from identity.errors import Conflict, Duplicate, NotFound, WebhookTransactionFailed
from identity.ids import TenantId, UserId
from identity.operations.user_actions import action_expiry, action_phases, applied_actions
from identity.operations.user_actions.action_phases import Notifications, Phase
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class LockOutSettings:
    """The `failedAuthenticationConfiguration` of a tenant."""

    too_many_attempts: int
    reset_count_in_seconds: int
    action_duration: int
    action_duration_unit: str
    email_user: bool
    action_cancel_policy: Document
    user_action_id: str | None = None

    @classmethod
    def of(cls, tenant: Document) -> LockOutSettings:
        """Return the settings of a tenant."""
        return stored_values.from_document(cls, tenant["failedAuthenticationConfiguration"])


@dataclasses.dataclass(frozen=True, slots=True)
class LockOutAttempt:
    """A login attempt of a tenant whose failures lock accounts; `count` is the number of attempts in the window."""

    tenant: Document
    user: Document | None
    login_id: str
    count: int
    is_locked: bool

    @property
    def tenant_id(self) -> TenantId:
        """The tenant of the account."""
        return TenantId(self.tenant["id"])

    @property
    def subject(self) -> str:
        """The counted subject: the user, whichever login id was used, or a login id that no user has."""
        return self.login_id if self.user is None else str(self.user["id"])

    @property
    def settings(self) -> LockOutSettings:
        """The tenant's settings."""
        return LockOutSettings.of(self.tenant)


async def count_attempt(
    services: Services, call: Call, tenant: Document, user: Document | None, login_id: str
) -> LockOutAttempt | None:
    """Count an attempt; None where failures lock no accounts."""
    settings, tenant_id = LockOutSettings.of(tenant), TenantId(tenant["id"])
    if user is not None and any(one["isLockOut"] for one in action_log_rules.preventing(user, None, call.now)):
        return LockOutAttempt(tenant, user, login_id, 0, is_locked=True)
    if settings.user_action_id is None:
        return None
    login_id = users.limit_key(login_id)
    if user is None and await services.limits.lock_outs.is_unknown_login_id_locked(tenant_id, login_id):
        return LockOutAttempt(tenant, user, login_id, 0, is_locked=True)
    uncounted = LockOutAttempt(tenant, user, login_id, 0, is_locked=False)
    count = await services.limits.lock_outs.count(tenant_id, uncounted.subject, settings.reset_count_in_seconds)
    return dataclasses.replace(uncounted, count=count, is_locked=count > settings.too_many_attempts)


async def refund_attempt(services: Services, attempt: LockOutAttempt | None) -> None:
    """Refund an attempt whose password was not compared."""
    if attempt is not None and attempt.count:
        await services.limits.lock_outs.discount(attempt.tenant_id, attempt.subject)


async def clear_failures(services: Services, attempt: LockOutAttempt | None) -> None:
    """Reset the counter after a correct password."""
    if attempt is not None:
        await services.limits.lock_outs.clear(attempt.tenant_id, attempt.subject)


async def record_failure(services: Services, call: Call, attempt: LockOutAttempt | None) -> None:
    """Record an incorrect password; the one that reaches the limit locks the account, unless a webhook vetoes it."""
    if attempt is None or attempt.count < attempt.settings.too_many_attempts:
        return
    definition = await _find_definition(services, attempt)
    if definition is None:
        return
    if attempt.user is None:
        await services.limits.lock_outs.lock_unknown_login_id(
            attempt.tenant_id, attempt.login_id, _lock_expiry(call, attempt), call.now
        )
    else:
        try:
            with write_guard.lifted():
                await _lock(services, call, attempt, attempt.user, definition)
        except (NotFound, WebhookTransactionFailed):
            await services.limits.lock_outs.clear(attempt.tenant_id, attempt.subject)
            return
    services.runtime.authentication_metrics.lock_outs.inc()
    await services.limits.lock_outs.expire_soon(attempt.tenant_id, attempt.subject)


async def extend_lock_out(services: Services, call: Call, attempt: LockOutAttempt) -> AccountLocked:
    """Extend the lock of an account after an attempt, and return the result of the attempt."""
    expiry = _lock_expiry(call, attempt)
    definition = await _find_definition(services, attempt)
    if attempt.user is None:
        action_id = await services.limits.lock_outs.lock_unknown_login_id(
            attempt.tenant_id, attempt.login_id, expiry, call.now
        )
        return AccountLocked((_provisional_action(definition, expiry) | {"actionId": action_id},))
    tenant_id, user_id = attempt.tenant_id, UserId(attempt.user["id"])
    log = await services.logs.action_logs.find_lock_out(tenant_id, user_id)
    if definition is None:
        return AccountLocked(action_log_rules.preventing(attempt.user, None, call.now))
    if log is None or not await services.logs.action_logs.extend(tenant_id, log["id"], expiry, call.now):
        # A concurrent attempt is applying the action, or the lock has just ended.
        return AccountLocked((_provisional_action(definition, expiry),))
    with write_guard.lifted():
        await services.directory.users.extend_prevention(tenant_id, user_id, log["id"], expiry)
    return AccountLocked((action_log_rules.prevention(log) | {"expiry": max(expiry, log["expiry"])},))


async def cancel_lock_out(services: Services, call: Call, tenant: Document, user: Document) -> None:
    """Unlock a user who has reset the password, if the tenant enables it. Webhooks cannot veto it."""
    tenant_id = TenantId(tenant["id"])
    if not LockOutSettings.of(tenant).action_cancel_policy["onPasswordReset"]:
        return
    for _ in range(_ATTEMPTS):
        log = await services.logs.action_logs.find_lock_out(tenant_id, UserId(user["id"]))
        if log is None or not action_log_rules.is_live(log, call.now):
            return
        notifications = Notifications(True, log.get("emailUserOnEnd", False), log.get("notifyUserOnEnd", False))
        try:
            with write_guard.lifted():
                await applied_actions.cancel_live(services, call, log, {}, notifications, can_be_vetoed=False)
        except Conflict:
            continue
        return


_ATTEMPTS = 8


async def _lock(services: Services, call: Call, attempt: LockOutAttempt, user: Document, definition: Document) -> None:
    """Apply the action. Raises WebhookTransactionFailed, and NotFound for a user who no longer exists."""
    is_mailed = attempt.settings.email_user and definition["userEmailingEnabled"]
    members = action_log_rules.localized_members(definition, None, None, user.get("preferredLanguages", []))
    log = applied_actions.build_log(
        definition,
        user,
        call.now,
        **members,
        expiry=_lock_expiry(call, attempt),
        emailUserOnEnd=is_mailed,
        notifyUserOnEnd=False,
    )
    log["private"]["lockOutOf"] = user["id"]
    phase = Phase("start", definition, log, user, Notifications(event=True, mail=is_mailed))
    for _ in range(_ATTEMPTS):
        try:
            await action_phases.commit(services, call, phase, applied_actions.start_writes(services, phase))
        except Duplicate:
            former = await services.logs.action_logs.find_lock_out(attempt.tenant_id, UserId(user["id"]))
            if former is not None and action_log_rules.is_live(former, call.now):
                return
            if former is not None:
                await action_expiry.end(services, call, former)
        else:
            return


async def _find_definition(services: Services, attempt: LockOutAttempt) -> Document | None:
    """Return the user action that locks accounts, or None if the tenant has none that can."""
    action_id = attempt.settings.user_action_id
    found = None if action_id is None else await services.configuration.user_actions.find_cached(None, action_id)
    return found if found is not None and user_actions.can_lock_out(found) else None


def _lock_expiry(call: Call, attempt: LockOutAttempt) -> int:
    settings = attempt.settings
    return action_log_rules.end_of_lock_out(call.now, settings.action_duration, settings.action_duration_unit)


def _provisional_action(definition: Document | None, expiry: int) -> Document:
    """Return the members of a lock that is not stored, or of an unknown login id; those of any other lock."""
    name = "" if definition is None else definition["name"]
    return {"name": name, "localizedName": name, "expiry": expiry, "applicationIds": [], "isLockOut": True}
