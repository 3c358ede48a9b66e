"""The forgot-password and change-password APIs: their request forms, and what authorizes each."""

from __future__ import annotations

import dataclasses

import orjson

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.users import users as user_rules
from identity.errors import Forbidden, Invalid, NotFound, Unaddressable, Unauthorized
from identity.ids import TenantId
from identity.operations.clients import bearer_tokens, clients
from identity.operations.groups import administrators
from identity.operations.login import one_time_passwords
from identity.operations.messaging import user_notifications
from identity.operations.objects import crud, user_lookup
from identity.operations.password_changes import password_changes
from identity.operations.password_changes.password_changes import (
    CompletedPasswordChange,
    PasswordChange,
    PresentedTrust,
)
from identity.operations.passwords import change_password_ids
from identity.operations.passwords.change_password_ids import ChangePasswordDetails, ValidChangePasswordId
from identity.services import Services

_FORGOT = "api/forgot-password.request.json"
_CHANGE = "api/change-password.request.json"
_STATE_BYTES = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class _ResetRequest:
    """The tenant, application and login id of a request, and the caller's `state`."""

    tenant: Document
    application: Document | None
    login_id: str
    types: tuple[str, ...]
    state: Document | None


async def start_reset(services: Services, call: Call, body: Document) -> Document | None:
    """Start a reset. Callers with an API key receive the id; others receive nothing, whether or not the user exists.

    Raises:
        Invalid: the request is invalid.
        Forbidden: no mail template is configured.
        NotFound, Unaddressable: with an API key, the user does not exist or has no email address.
        Unavailable: the limit of resets is exceeded.
        Unauthorized: a caller without an API key chooses the id.
    """
    request = services.schemas[_FORGOT].read(body)
    is_keyed = isinstance(call.caller, ApiKeyCaller)
    requested_id = request.get("changePasswordId")
    if requested_id is not None and not is_keyed:
        raise Unauthorized(log_detail="a chosen change password id requires an API key")
    target = await _read_reset_request(services, call, request)
    sends = not is_keyed or (request["sendForgotPasswordEmail"] and request["sendForgotPasswordMessage"])
    if (
        sends
        and user_notifications.configured_template(target.tenant, target.application, password_changes.FORGOT_TEMPLATE)
        is None
    ):
        raise Forbidden(log_detail="no template of a mail for forgotten passwords")
    tenant, application, state = target.tenant, target.application, target.state
    if not is_keyed:
        await password_changes.request_reset(services, call, tenant, target.login_id, target.types, application, state)
        return None
    user = await services.directory.users.find_by_login_id(TenantId(tenant["id"]), target.login_id, target.types)
    if user is None or not user["active"]:
        raise NotFound(log_detail="no user has this login id")
    await administrators.require_authority(services, call, user)
    if sends and user_rules.email_address(user) is None:
        raise Unaddressable(log_detail="the user has no email address")
    change_id = await password_changes.start_reset(
        services, call, tenant, user, application, state, send=sends, requested_id=requested_id
    )
    return {"changePasswordId": change_id}


async def check_id(services: Services, call: Call, change_id: str) -> None:
    """Check that an id authorizes a change without a trust token. Raises NotFound, and Invalid if it requires one."""
    found = await password_changes.get_valid_id(services, call, change_id)
    if not found.details.is_trusted:
        await _require_no_trust_token(services, call, found.tenant, found.user)


async def check_user(services: Services, call: Call, token: str | None, login_id: str | None, types: list[str]) -> None:
    """Check the user of a login id, for callers with an API key, or of an access token, as `check_id` does.

    Raises NotFound, Invalid and InvalidToken.
    """
    if isinstance(call.caller, ApiKeyCaller):
        if not login_id:
            raise Invalid.field("missing", "loginId", "You must specify the [loginId] parameter.")
        user = await user_lookup.retrieve_by_login_id(services, call, login_id, types or user_rules.LOGIN_ID_TYPES)
        tenant = await services.configuration.tenants.get(None, TenantId(user["tenantId"]))
        await _require_no_trust_token(services, call, tenant, user)
        return
    bearer = await bearer_tokens.verify(services, call, token)
    bearer.require_usable_for()
    await _require_no_trust_token(services, call, bearer.token.tenant, bearer.user)


async def change_by_id(services: Services, call: Call, body: Document, change_id: str | None = None) -> Document:
    """Set the password authorized by an id in the body or the path; return a one-time password.

    Raises NotFound for an invalid id, Invalid, Unavailable after too many invalid ids from one IP address, and
    WebhookTransactionFailed.
    """
    request = services.schemas[_CHANGE].read(body)
    requested_id = request.get("changePasswordId") or change_id
    if requested_id is None:
        raise Invalid.field("missing", "changePasswordId", "You must specify the [changePasswordId] property.")
    await password_changes.get_valid_id(services, call, requested_id)
    done = await password_changes.complete(
        services,
        call,
        requested_id,
        request["password"],
        current_password=request.get("currentPassword"),
        trust=_presented_trust(request),
    )
    return _response(done)


async def change_by_login_id(services: Services, call: Call, body: Document) -> None:
    """Set the password of the user with a login id, for a caller with an API key. Raises Invalid."""
    request = services.schemas[_CHANGE].read(body)
    login_id, types = request.get("loginId"), request.get("loginIdTypes") or user_rules.LOGIN_ID_TYPES
    if login_id is None:
        raise Invalid.field("missing", "loginId", "You must specify the [loginId] or the [changePasswordId] property.")
    target = await _read_reset_request(services, call, request)
    tenant_id = TenantId(target.tenant["id"])
    user = await services.directory.users.find_by_login_id(tenant_id, login_id, types)
    if user is None:
        raise Invalid.field("invalid", "loginId", "No user has this [loginId].")
    await administrators.require_authority(services, call, user)
    if "currentPassword" in request:
        await password_changes.require_current_password(services, call, target.tenant, user, request["currentPassword"])
    change = PasswordChange(request["password"], application=target.application)
    await password_changes.change_password(services, call, target.tenant, user["id"], change)


async def change_by_token(services: Services, call: Call, body: Document, token: str | None) -> Document:
    """Set the password of an access token's user, who has to enter the current one; return a one-time password.

    A login with it yields a refresh token only if the request presents one. Raises Invalid and InvalidToken.
    """
    request = services.schemas[_CHANGE].read(body)
    bearer = await bearer_tokens.verify(services, call, token)
    bearer.require_usable_for()
    await bearer_tokens.require_own_account(services, bearer)
    tenant, user = bearer.token.tenant, bearer.user
    if "currentPassword" not in request:
        raise Invalid.field("missing", "currentPassword", "You must specify the [currentPassword] property.")
    call = call.within(TenantId(tenant["id"]))
    await password_changes.require_current_password(services, call, tenant, user, request["currentPassword"])
    uses = await password_changes.verify_trust(
        services, call, ValidChangePasswordId(tenant, user, ChangePasswordDetails()), _presented_trust(request)
    )
    may_refresh = await _is_own_refresh_token(services, call, user, request.get("refreshToken"))
    application = bearer.token.application
    change = PasswordChange(request["password"], uses, application=application)
    changed = await password_changes.change_password(services, call, tenant, user["id"], change)
    details = one_time_passwords.OneTimePasswordDetails(may_refresh=may_refresh, has_second_factor=bool(uses))
    value = await one_time_passwords.issue(services, tenant, changed, details)
    return _response(CompletedPasswordChange(changed, value, None))


async def get_user_of_id(services: Services, call: Call, change_id: str) -> Document:
    """Return the user of an id. Raises NotFound."""
    return (await change_password_ids.get_valid(services, call.tenant_id, change_id)).user


async def _read_reset_request(services: Services, call: Call, request: Document) -> _ResetRequest:
    """Return the target of a request; the tenant is the call's, else the application's. Raises Invalid."""
    application = None
    tenant_id = call.tenant_id
    if "applicationId" in request:
        client = await clients.get_by_application_id(services, tenant_id, request["applicationId"])
        application, tenant_id = client.application, client.tenant_id
    tenant_id = tenant_id or crud.require_tenant(call)
    state = request.get("state")
    if state is not None and len(orjson.dumps(state)) > _STATE_BYTES:
        raise Invalid.field("tooLong", "state", f"The [state] may have at most {_STATE_BYTES} bytes of JSON.")
    login_ids = [(name, request[name]) for name in ("loginId", "email", "username") if name in request]
    if not login_ids:
        raise Invalid.field("missing", "loginId", "You must specify the [loginId] property.")
    name, login_id = login_ids[0]
    types = tuple(request.get("loginIdTypes") or user_rules.LOGIN_ID_TYPES) if name == "loginId" else (name,)
    return _ResetRequest(await services.configuration.tenants.get(None, tenant_id), application, login_id, types, state)


async def _is_own_refresh_token(services: Services, call: Call, user: Document, value: str | None) -> bool:
    """Whether this is a live refresh token of the user. Raises Invalid for one that is not."""
    if value is None:
        return False
    presented = await services.tokens.refresh_tokens.find_by_value(TenantId(user["tenantId"]), value, call.now)
    if presented is None or not presented.is_current or presented.record["userId"] != user["id"]:
        raise Invalid.field("invalid", "refreshToken", "The [refreshToken] is not a live refresh token of the user.")
    return True


async def _require_no_trust_token(services: Services, call: Call, tenant: Document, user: Document) -> None:
    if await password_changes.requires_trust_token(services, call, tenant, user):
        raise password_changes.trust_token_required()


def _presented_trust(request: Document) -> PresentedTrust:
    return PresentedTrust(request.get("trustToken"), request.get("trustChallenge"))


def _response(done: CompletedPasswordChange) -> Document:
    return {"oneTimePassword": done.one_time_password, **({} if done.state is None else {"state": done.state})}
