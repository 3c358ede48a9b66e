"""Two-factor methods of a user: add, rename and remove them, and generate recovery codes.

Adding and removing a method requires a code of it. Adding the first method generates ten recovery codes. Removing a
method with a recovery code removes all methods, since the user presumably lost them. Removing any method revokes the
trust in the user's devices.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Literal

from identity.call import Call, Document
from identity.domain.configuration import feature_settings
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.objects.owner_settings import RevocationPolicy
from identity.domain.two_factor import totp, two_factor
from identity.domain.users import users as user_rules
from identity.errors import FieldError, Invalid, NotFound, WrongCode
from identity.events.changes import Change
from identity.ids import TenantId
from identity.operations.groups import administrator_realm
from identity.operations.limits import code_attempt_limits
from identity.operations.messaging import user_events, user_notifications
from identity.operations.objects import crud, features
from identity.operations.sessions import session_termination
from identity.operations.two_factor import two_factor_codes, two_factor_trust
from identity.operations.two_factor.two_factor_codes import AuthenticatorCodeUse, CodeAddress
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeTokenUse

CodePurpose = Literal["confirm", "enable", "disable"]

_KIND: Final = "two-factor-setup"

_CodeUse = AuthenticatorCodeUse | OneTimeTokenUse
"""The single use of a verified code."""


@dataclasses.dataclass(frozen=True, slots=True)
class MethodRequest:
    """A method that a user requests to add; `secret` is the Base64 secret of an authenticator app."""

    method: str
    secret: str | None = dataclasses.field(default=None, repr=False)
    address: str | None = None
    name: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AddedMethod:
    """The result of adding a method: the user, the method, and the recovery codes if it is the first one."""

    user: Document = dataclasses.field(repr=False)
    method: Document = dataclasses.field(repr=False)
    recovery_codes: Sequence[str] = dataclasses.field(default=(), repr=False)


def new_secret() -> Document:
    """Return a secret for an authenticator app: `secret` in Base64, and `secretBase32Encoded` for the app."""
    raw = os.urandom(totp.SECRET_BYTES)
    return {"secret": base64.b64encode(raw).decode(), "secretBase32Encoded": totp.to_base32(raw)}


async def send_code(
    services: Services,
    call: Call,
    tenant: Document,
    application: Document | None,
    user: Document,
    address: CodeAddress | None,
    purpose: CodePurpose,
) -> None:
    """Send the code that adds or removes a method. Earlier codes for the same purpose become invalid.

    Raises Invalid for a method that is disabled or sends no messages, and Unavailable when the tenant's limit of
    messages is exceeded.
    """
    tenant = await administrator_realm.of_user(services, tenant, user)
    if address is not None and purpose == "enable":
        _require_enabled(services, tenant, address.method)
    two_factor_codes.require_sendable(tenant, application, address)
    assert address is not None
    await two_factor_codes.count_message(services, tenant, user["id"])
    tenant_id, code = TenantId(tenant["id"]), two_factor_codes.generate(tenant)
    ttl_seconds = Lifetimes.of(tenant).two_factor_code_seconds
    token_id, document = _token_id(user, address, purpose), {"code": two_factor_codes.hash_code(code)}
    await services.tokens.one_time_tokens.consume(tenant_id, _KIND, token_id)
    await services.tokens.one_time_tokens.issue(
        tenant_id, _KIND, user["id"], document, ttl_seconds, make=lambda: token_id
    )
    await two_factor_codes.send(services, call.within(tenant_id), tenant, application, user, address, code)


async def enable(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    request: MethodRequest,
    code: str,
    *,
    application: Document | None = None,
) -> AddedMethod:
    """Add a method after verifying a code of it.

    Raises:
        Invalid: the tenant does not enable the method, or the user has it already.
        WrongCode: the code is incorrect or was used before.
        Unavailable: too many incorrect codes.
        WebhookTransactionFailed: a webhook vetoed the revocation of refresh tokens that the first method causes.
    """
    _require_enabled(services, tenant, request.method)
    method = _new_method(call, tenant, user, request)
    use = await _verify_code(services, call, user, method, code, "enable")
    added = await _add(services, call, tenant, user, method, use)
    await _notify_user(services, call, tenant, added.user, "twoFactorMethodAddEmailTemplateId", method, application)
    return added


@crud.retry_on_conflict
async def _add(
    services: Services, call: Call, tenant: Document, user: Document, method: Document, use: _CodeUse
) -> AddedMethod:
    stored = await services.directory.users.get(TenantId(user["tenantId"]), user["id"])
    crud.require_no_errors(_conflicts(stored, method))
    is_first = not stored["twoFactor"]["methods"]
    new_codes = two_factor.new_recovery_codes() if is_first else []
    methods = [*stored["twoFactor"]["methods"], method]
    changed = _with_methods(stored, call, methods, new_codes or stored["twoFactor"]["recoveryCodes"])
    revokes = is_first and RevocationPolicy.of(tenant).on_multi_factor_enable
    await _commit(services, call, stored, changed, use, revokes_tokens=revokes)
    return AddedMethod(changed, method, tuple(new_codes))


async def disable(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    code: str,
    method_id: str | None,
    *,
    application: Document | None = None,
) -> None:
    """Remove a method after verifying a code of it; a recovery code removes all methods.

    Raises NotFound for a method that the user does not have, Invalid if none is named, WrongCode, and Unavailable
    after too many incorrect codes.
    """
    use = await _verify_removal_code(services, call, user, code, method_id)
    changed, removed = await _remove(services, call, user, code, method_id, use)
    for method in removed:
        await _notify_user(services, call, tenant, changed, "twoFactorMethodRemoveEmailTemplateId", method, application)


@crud.retry_on_conflict
async def _remove(
    services: Services, call: Call, user: Document, code: str, method_id: str | None, use: _CodeUse | None
) -> tuple[Document, Sequence[Document]]:
    """Remove the method, or all methods without a `use`; return the changed user and the removed methods."""
    stored = await services.directory.users.get(TenantId(user["tenantId"]), user["id"])
    methods = stored["twoFactor"]["methods"]
    if use is None and not two_factor.matches_recovery_code(stored["twoFactor"]["recoveryCodes"], code):
        raise WrongCode(log_detail="the recovery code was used before")
    removed = methods if use is None else [one for one in methods if one["id"] == method_id]
    if not removed:
        raise NotFound
    remaining = [one for one in methods if one not in removed]
    changed = _with_methods(stored, call, remaining, stored["twoFactor"]["recoveryCodes"] if remaining else [])
    await _commit(services, call, stored, changed, use)
    return changed, removed


async def confirm(services: Services, call: Call, user: Document, code: str) -> None:
    """Verify and consume a code of any of the user's methods, to confirm a sensitive change.

    Raises WrongCode, and Unavailable after too many incorrect codes.
    """
    async with _attempt(services, user):
        for method in user["twoFactor"]["methods"]:
            use = await _match_code(services, call, user, method, code, "confirm")
            if use is not None and await use.consume():
                return
        raise WrongCode(log_detail="incorrect code to confirm a change")


@crud.retry_on_conflict
async def rename(services: Services, call: Call, user: Document, method_id: str, name: str | None) -> None:
    """Set or remove the name of a method. Raises NotFound."""
    stored = await services.directory.users.get(TenantId(user["tenantId"]), user["id"])
    if two_factor.find_method(stored, method_id) is None:
        raise NotFound
    methods = [_with_name(one, name) if one["id"] == method_id else one for one in stored["twoFactor"]["methods"]]
    changed = _with_methods(stored, call, methods, stored["twoFactor"]["recoveryCodes"])
    await _commit(services, call, stored, changed, None)


@crud.retry_on_conflict
async def generate_recovery_codes(services: Services, call: Call, user: Document) -> list[str]:
    """Replace the user's recovery codes by new ones. Raises Invalid for a user without a method."""
    codes = two_factor.new_recovery_codes()
    stored = await services.directory.users.get(TenantId(user["tenantId"]), user["id"])
    if not stored["twoFactor"]["methods"]:
        raise Invalid.field("invalid", "userId", "The [userId] names a user who has no two-factor method.")
    changed = _with_methods(stored, call, stored["twoFactor"]["methods"], codes)
    await _commit(services, call, stored, changed, None)
    return codes


def _require_enabled(services: Services, tenant: Document, method: str) -> None:
    if method in two_factor.ADDRESS_MEMBERS:
        features.require(services, feature_settings.ADVANCED_MULTI_FACTOR)
    if method not in two_factor.configurable_methods(tenant):
        raise Invalid.field("disabled", "method", f"The tenant does not let users add the method [{method}].")


def _new_method(call: Call, tenant: Document, user: Document, request: MethodRequest) -> Document:
    """Return the method as stored. Raises Invalid if the user has it already."""
    method: Document = {"method": request.method, "lastUsed": False, "insertInstant": call.now}
    if request.name is not None:
        method["name"] = request.name
    if request.method == two_factor.AUTHENTICATOR:
        settings = tenant["multiFactorConfiguration"]["authenticator"]
        method["authenticator"] = {name: settings[name] for name in ("algorithm", "codeLength", "timeStep")}
        method["secret"] = request.secret
    else:
        method[two_factor.ADDRESS_MEMBERS[request.method]] = request.address
    used_ids = {one["id"] for one in user["twoFactor"]["methods"]}
    while True:
        found: Document = user_rules.with_method_ids({"methods": [method]})["methods"][0]
        if found["id"] not in used_ids:
            break
    crud.require_no_errors(_conflicts(user, found))
    return found


def _conflicts(user: Document, method: Document) -> list[FieldError]:
    """Return the errors of a method that the user has already, or that exceeds the maximum."""
    member = two_factor.ADDRESS_MEMBERS.get(method["method"], "secret")
    others = user["twoFactor"]["methods"]
    if any(one["method"] == method["method"] and one.get(member) == method[member] for one in others):
        return [FieldError.of("duplicate", member, f"The user has a method with this [{member}] already.")]
    if len(others) >= two_factor.MAXIMUM_METHODS:
        message = f"A user may have {two_factor.MAXIMUM_METHODS} methods."
        return [FieldError.of("tooMany", "method", message)]
    return []


async def _verify_code(
    services: Services, call: Call, user: Document, method: Document, code: str, purpose: CodePurpose
) -> _CodeUse:
    """Verify a code of a method and return its single use. Each attempt is counted before anything is compared.

    Raises WrongCode, and Unavailable after too many incorrect codes.
    """
    async with _attempt(services, user):
        use = await _match_code(services, call, user, method, code, purpose)
        if use is None:
            raise WrongCode(log_detail=f"incorrect code to {purpose} a method")
        return use


def _attempt(services: Services, user: Document) -> AbstractAsyncContextManager[None]:
    limits = code_attempt_limits.of_two_factor(user["id"])
    return code_attempt_limits.attempt(services, TenantId(user["tenantId"]), limits)


async def _match_code(
    services: Services, call: Call, user: Document, method: Document, code: str, purpose: CodePurpose
) -> _CodeUse | None:
    address = CodeAddress.of(method)
    if address is None:
        step = two_factor_codes.matching_step(method, code, call)
        if step is None:
            return None
        use = AuthenticatorCodeUse(services, user, method["secret"], method.get("authenticator", {}), step)
        return None if await use.is_used() else use
    tenant_id, token_id = TenantId(user["tenantId"]), _token_id(user, address, purpose)
    token = await services.tokens.one_time_tokens.find_counting_attempt(
        tenant_id, _KIND, token_id, code_attempt_limits.ATTEMPTS
    )
    if token is None or not two_factor_codes.matches(token.document["code"], code):
        return None
    return services.tokens.one_time_tokens.use(tenant_id, _KIND, token_id)


async def _verify_removal_code(
    services: Services, call: Call, user: Document, code: str, method_id: str | None
) -> _CodeUse | None:
    """Verify a code and return its single use, or None for a recovery code, which removes all methods."""
    method = None if method_id is None else two_factor.find_method(user, method_id)
    async with _attempt(services, user):
        if two_factor.matches_recovery_code(user["twoFactor"]["recoveryCodes"], code):
            return None
        if method_id is None:
            raise Invalid.field("blank", "methodId", "You must specify the [methodId] property.")
        use = None if method is None else await _match_code(services, call, user, method, code, "disable")
        if method is not None and use is None:
            raise WrongCode(log_detail="incorrect code to disable a method")
    if method is None:
        raise NotFound
    return use


async def _commit(
    services: Services,
    call: Call,
    stored: Document,
    user: Document,
    use: _CodeUse | None,
    *,
    revokes_tokens: bool = False,
) -> None:
    """Commit a user whose methods changed, with its events. Raises Conflict, and WrongCode if the code was used."""
    termination = await session_termination.prepare(services, call, stored) if revokes_tokens else None
    change = Change(
        [
            functools.partial(_write, services, stored, user, use),
            *session_termination.writes(services, call, termination),
        ],
        termination.events if termination is not None else (),
        user_events.two_factor_changes(stored, user),
    )
    await services.bus.commit(call.within(TenantId(stored["tenantId"])), change)
    await session_termination.finish(services, call, termination)


async def _write(
    services: Services, stored: Document, user: Document, use: _CodeUse | None, session: Session | None
) -> None:
    if use is not None and not await use.consume():
        raise WrongCode(log_detail="the code was used before")
    await services.directory.users.replace(TenantId(stored["tenantId"]), user, stored["lastUpdateInstant"], session)
    if two_factor.has_lost_methods(stored, user):
        await two_factor_trust.revoke_all(services, stored, session)


def _with_methods(stored: Document, call: Call, methods: Sequence[Document], codes: Sequence[str]) -> Document:
    moved = max(call.now, stored["lastUpdateInstant"] + 1)
    two_factor_settings = {"methods": list(methods), "recoveryCodes": list(codes)}
    return user_rules.with_derived_members({**stored, "twoFactor": two_factor_settings, "lastUpdateInstant": moved})


def _with_name(method: Document, name: str | None) -> Document:
    plain = {member: value for member, value in method.items() if member != "name"}
    return plain if name is None else {**plain, "name": name}


async def _notify_user(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    template: user_notifications.Template,
    method: Document,
    application: Document | None,
) -> None:
    data = {"method": two_factor.visible_method(method, is_masked=False)}
    await user_notifications.notify(services, call, tenant, user, template, data, application=application)


def _token_id(user: Document, address: CodeAddress, purpose: CodePurpose) -> str:
    return f"{user['id']} {purpose} {address.method} {address.value}"
