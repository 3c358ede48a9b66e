"""The second factors that a user has: added, named and removed with a code that shows they work, and recovery codes.

Adding the first method gives ten recovery codes. Who shows one of them when removing a method is taken to have lost the
others: all methods go. Trust in devices goes with any method that is removed.
"""

from __future__ import annotations

import base64
import dataclasses
import os
from collections.abc import Sequence
from typing import Final, Literal

from identity.call import Call, Document
from identity.domain.configuration import feature_settings
from identity.domain.two_factor import totp, two_factor
from identity.domain.users import users as rules
from identity.errors import FieldError, Invalid, NotFound, WrongCode
from identity.ids import TenantId
from identity.operations.messaging import user_events, user_notifications
from identity.operations.objects import crud, features
from identity.operations.sessions import session_termination
from identity.operations.two_factor import two_factor_codes, two_factor_limits, two_factor_trust
from identity.operations.two_factor.two_factor_codes import AuthenticatorCodeUse, CodeAddress
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeTokenUse

CodePurpose = Literal["confirm", "enable", "disable"]

_KIND: Final = "two-factor-setup"


@dataclasses.dataclass(frozen=True, slots=True)
class MethodRequest:
    """A method that a user wants to add, as a request names it; `secret` is Base64, and an authenticator's."""

    method: str
    secret: str | None = dataclasses.field(default=None, repr=False)
    address: str | None = None
    name: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AddedMethod:
    """What a new method gave: its document, and recovery codes where it is the first one."""

    user: Document = dataclasses.field(repr=False)
    method: Document = dataclasses.field(repr=False)
    recovery_codes: Sequence[str] = dataclasses.field(default=(), repr=False)


def new_secret() -> Document:
    """A secret for an authenticator app: `secret` in Base64, and `secretBase32Encoded` as apps take it."""
    raw = os.urandom(totp.SECRET_BYTES)
    return {"secret": base64.b64encode(raw).decode(), "secretBase32Encoded": totp.to_base32(raw)}


async def send_code(
    services: Services,
    call: Call,
    tenant: Document,
    application: Document | None,
    user: Document,
    address: CodeAddress | None,
    deed: CodePurpose,
) -> None:
    """Send the code that adds or removes a method; earlier codes for the same deed count no more.

    Raises Invalid for a method that is switched off or sends nothing, and Unavailable when the tenant allows no more
    messages for now.
    """
    if address is not None and deed == "enable":
        _require_enabled(services, tenant, address.method)
    two_factor_codes.require_sendable(tenant, application, address)
    assert address is not None
    await two_factor_codes.count_message(services, tenant, user["id"])
    tenant_id, code = TenantId(tenant["id"]), two_factor_codes.generate(tenant)
    ttl_seconds = tenant["externalIdentifierConfiguration"]["twoFactorOneTimeCodeIdTimeToLiveInSeconds"]
    ticket_id, document = _token_id(user, address, deed), {"code": two_factor_codes.hash_code(code)}
    await services.one_time_tokens.consume(tenant_id, _KIND, ticket_id)
    await services.one_time_tokens.issue(tenant_id, _KIND, user["id"], document, ttl_seconds, make=lambda: ticket_id)
    await two_factor_codes.send(services, call.within(tenant_id), tenant, application, user, address, code)


async def enable(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    wanted: MethodRequest,
    code: str,
    *,
    application: Document | None = None,
) -> AddedMethod:
    """Add a method whose code was shown.

    Raises Invalid for a method that the tenant does not let users add, or that the user has; WrongCode; Unavailable
    after too many wrong codes; WebhookTransactionFailed where the end of refresh tokens that goes with the first method
    is vetoed.
    """
    _require_enabled(services, tenant, wanted.method)
    method = _new_method(tenant, user, wanted)
    once = await _verify_code(services, call, user, method, code, "enable")
    codes: list[str] = []

    async def attempt() -> Document:
        stored = await services.users.get(TenantId(user["tenantId"]), user["id"])
        crud.require_no_errors(_clashes(stored, method))
        is_first = not stored["twoFactor"]["methods"]
        codes[:] = two_factor.new_recovery_codes() if is_first else []
        kept = codes or stored["twoFactor"]["recoveryCodes"]
        changed = _with_methods(stored, call, [*stored["twoFactor"]["methods"], method], kept)
        ends = is_first and tenant["jwtConfiguration"]["refreshTokenRevocationPolicy"]["onMultiFactorEnable"]
        await _replace(services, call, stored, changed, once, ends=ends)
        return changed

    changed = await crud.retry_on_conflict(attempt)
    await _notify_user(services, call, tenant, changed, "twoFactorMethodAddEmailTemplateId", method, application)
    return AddedMethod(changed, method, tuple(codes))


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
    """Remove a method whose code was shown; for a recovery code, all of them.

    Raises NotFound for a method that the user does not have, Invalid where none is named, WrongCode, and Unavailable
    after too many wrong codes.
    """
    once = await _verify_removal_code(services, call, user, code, method_id)
    removed: list[Document] = []

    async def attempt() -> Document:
        stored = await services.users.get(TenantId(user["tenantId"]), user["id"])
        methods = stored["twoFactor"]["methods"]
        if once is None and not two_factor.matches_recovery_code(stored["twoFactor"]["recoveryCodes"], code):
            raise WrongCode(log_detail="the recovery code was used before")
        removed[:] = methods if once is None else [one for one in methods if one["id"] == method_id]
        if not removed:
            raise NotFound
        left = [one for one in methods if one not in removed]
        changed = _with_methods(stored, call, left, stored["twoFactor"]["recoveryCodes"] if left else [])
        await _replace(services, call, stored, changed, once)
        return changed

    changed = await crud.retry_on_conflict(attempt)
    for method in removed:
        await _notify_user(services, call, tenant, changed, "twoFactorMethodRemoveEmailTemplateId", method, application)


async def confirm(services: Services, call: Call, user: Document, code: str) -> None:
    """Use up a code of one of the user's methods, which confirms a sensitive change.

    Raises WrongCode, and Unavailable after too many of them.
    """
    tenant_id, limits = TenantId(user["tenantId"]), two_factor_limits.account_limits(user["id"])
    await two_factor_limits.count_attempt(services, tenant_id, limits)
    for method in user["twoFactor"]["methods"]:
        once = await _match_code(services, call, user, method, code, "confirm")
        if once is not None and await once.consume():
            await services.rate_limits.refund(tenant_id, limits)
            return
    raise WrongCode(log_detail="wrong code to confirm a change")


async def rename(services: Services, call: Call, user: Document, method_id: str, name: str | None) -> None:
    """Give a method another name, or none. Raises NotFound."""

    async def attempt() -> Document:
        stored = await services.users.get(TenantId(user["tenantId"]), user["id"])
        if two_factor.find_method(stored, method_id) is None:
            raise NotFound
        methods = [_with_name(one, name) if one["id"] == method_id else one for one in stored["twoFactor"]["methods"]]
        changed = _with_methods(stored, call, methods, stored["twoFactor"]["recoveryCodes"])
        await _replace(services, call, stored, changed, None)
        return changed

    await crud.retry_on_conflict(attempt)


async def generate_recovery_codes(services: Services, call: Call, user: Document) -> list[str]:
    """Ten new recovery codes in place of those before. Raises Invalid for a user without a method."""
    codes = two_factor.new_recovery_codes()

    async def attempt() -> Document:
        stored = await services.users.get(TenantId(user["tenantId"]), user["id"])
        if not stored["twoFactor"]["methods"]:
            raise Invalid.field("invalid", "userId", "The [userId] names a user who has no two-factor method.")
        changed = _with_methods(stored, call, stored["twoFactor"]["methods"], codes)
        await _replace(services, call, stored, changed, None)
        return changed

    await crud.retry_on_conflict(attempt)
    return codes


def _require_enabled(services: Services, tenant: Document, method: str) -> None:
    if method in two_factor.ADDRESS_MEMBERS:
        features.require(services, feature_settings.ADVANCED_MULTI_FACTOR)
    if method not in two_factor.configurable_methods(tenant):
        raise Invalid.field("disabled", "method", f"The tenant does not let users add the method [{method}].")


def _new_method(tenant: Document, user: Document, wanted: MethodRequest) -> Document:
    """The method as it is stored. Raises Invalid for one that the user has already."""
    method: Document = {"method": wanted.method, "lastUsed": False}
    if wanted.name is not None:
        method["name"] = wanted.name
    if wanted.method == two_factor.AUTHENTICATOR:
        settings = tenant["multiFactorConfiguration"]["authenticator"]
        method["authenticator"] = {name: settings[name] for name in ("algorithm", "codeLength", "timeStep")}
        method["secret"] = wanted.secret
    else:
        method[two_factor.ADDRESS_MEMBERS[wanted.method]] = wanted.address
    taken = {one["id"] for one in user["twoFactor"]["methods"]}
    while True:
        found: Document = rules.with_method_ids({"methods": [method]})["methods"][0]
        if found["id"] not in taken:
            break
    crud.require_no_errors(_clashes(user, found))
    return found


def _clashes(user: Document, method: Document) -> list[FieldError]:
    """What the user's other methods have against one."""
    member = two_factor.ADDRESS_MEMBERS.get(method["method"], "secret")
    others = user["twoFactor"]["methods"]
    if any(one["method"] == method["method"] and one.get(member) == method[member] for one in others):
        return [FieldError.of("duplicate", member, f"The user has a method with this [{member}] already.")]
    if len(others) >= two_factor.MAXIMUM_METHODS:
        message = f"A user may have {two_factor.MAXIMUM_METHODS} methods."
        return [FieldError.of("tooMany", "method", message)]
    return []


async def _verify_code(
    services: Services, call: Call, user: Document, method: Document, code: str, deed: CodePurpose
) -> AuthenticatorCodeUse | OneTimeTokenUse:
    """The one use of a code that is right for a method. Every try counts before anything is compared.

    Raises WrongCode, and Unavailable after too many of them.
    """
    tenant_id = TenantId(user["tenantId"])
    limits = two_factor_limits.account_limits(user["id"])
    await two_factor_limits.count_attempt(services, tenant_id, limits)
    once = await _match_code(services, call, user, method, code, deed)
    if once is None:
        raise WrongCode(log_detail=f"wrong code to {deed} a method")
    await services.rate_limits.refund(tenant_id, limits)
    return once


async def _match_code(
    services: Services, call: Call, user: Document, method: Document, code: str, deed: CodePurpose
) -> AuthenticatorCodeUse | OneTimeTokenUse | None:
    address = CodeAddress.of(method)
    if address is None:
        step = two_factor_codes.matching_step(method, code, call)
        if step is None:
            return None
        once = AuthenticatorCodeUse(services, user, method["secret"], method.get("authenticator", {}), step)
        return None if await once.is_used() else once
    tenant_id, ticket_id = TenantId(user["tenantId"]), _token_id(user, address, deed)
    ticket = await services.one_time_tokens.find_counting_attempt(
        tenant_id, _KIND, ticket_id, two_factor_limits.ATTEMPTS
    )
    if ticket is None or not two_factor_codes.matches(ticket.document["code"], code):
        return None
    return services.one_time_tokens.use(tenant_id, _KIND, ticket_id)


async def _verify_removal_code(
    services: Services, call: Call, user: Document, code: str, method_id: str | None
) -> AuthenticatorCodeUse | OneTimeTokenUse | None:
    """The one use of the code of a method, or None for a recovery code, which goes with all of them."""
    tenant_id = TenantId(user["tenantId"])
    limits = two_factor_limits.account_limits(user["id"])
    await two_factor_limits.count_attempt(services, tenant_id, limits)
    is_recovery = two_factor.matches_recovery_code(user["twoFactor"]["recoveryCodes"], code)
    method = None if method_id is None else two_factor.find_method(user, method_id)
    if is_recovery or method is None:
        if is_recovery or method_id is not None:
            await services.rate_limits.refund(tenant_id, limits)
        if is_recovery:
            return None
        if method_id is not None:
            raise NotFound
        raise Invalid.field("blank", "methodId", "You must specify the [methodId] property.")
    once = await _match_code(services, call, user, method, code, "disable")
    if once is None:
        raise WrongCode(log_detail="wrong code to disable a method")
    await services.rate_limits.refund(tenant_id, limits)
    return once


async def _replace(
    services: Services,
    call: Call,
    stored: Document,
    user: Document,
    once: AuthenticatorCodeUse | OneTimeTokenUse | None,
    *,
    ends: bool = False,
) -> None:
    """Write the user with other methods and tell of them. Raises Conflict, and WrongCode for a code used meanwhile."""
    tenant_id = TenantId(stored["tenantId"])
    events = user_events.two_factor_changes(stored, user)
    sign_out = await session_termination.prepare(services, call, stored) if ends else None

    async def write(session: Session | None) -> None:
        if once is not None and not await once.consume():
            raise WrongCode(log_detail="the code was used before")
        await services.users.replace(tenant_id, user, stored["lastUpdateInstant"], session)
        if two_factor.has_lost_methods(stored, user):
            await two_factor_trust.revoke_all(services, stored, session)

    change = session_termination.together(services, call, sign_out, write)
    offered = sign_out.events if sign_out is not None else ()
    await services.bus.perform(call.within(tenant_id), change, offered, events)
    await session_termination.finish(services, call, sign_out)


def _with_methods(stored: Document, call: Call, methods: Sequence[Document], codes: Sequence[str]) -> Document:
    moved = max(call.now, stored["lastUpdateInstant"] + 1)
    two_factor_settings = {"methods": list(methods), "recoveryCodes": list(codes)}
    return rules.with_derived_members({**stored, "twoFactor": two_factor_settings, "lastUpdateInstant": moved})


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
    await user_notifications.tell(services, call, tenant, user, template, data, application=application)


def _token_id(user: Document, address: CodeAddress, deed: CodePurpose) -> str:
    return f"{user['id']} {deed} {address.method} {address.value}"
