"""The two-factor methods API: whose methods a request is about, and its body, for `two_factor_methods`."""

from __future__ import annotations

import dataclasses

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.two_factor import totp, two_factor
from identity.domain.users import users as rules
from identity.errors import FieldError, Invalid, NotFound
from identity.ids import TenantId
from identity.operations.clients import bearer_tokens, clients
from identity.operations.login import two_factor_challenges
from identity.operations.objects import crud, user_lookup
from identity.operations.two_factor import two_factor_methods
from identity.operations.two_factor.two_factor_codes import CodeAddress
from identity.operations.two_factor.two_factor_methods import CodePurpose, MethodRequest
from identity.services import Services

_ENABLE = "api/two-factor.request.json"
_DISABLE = "api/two-factor-disable.request.json"
_RENAME = "api/two-factor-update.request.json"
_SEND = "api/two-factor-send.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """The user whose methods a request is about, as stored, with the tenant; `call` is inside that."""

    call: Call
    tenant: Document
    user: Document
    application: Document | None = None
    """That of the access token, where one was shown."""

    def require_challenged(self) -> None:
        """Raise Invalid where a login to the token's application shows no second factor, and the user has one.

        Otherwise a caller who knows only the password could obtain a code that every application accepts.
        """
        is_open = two_factor.login_policy(self.tenant, self.application) == two_factor.DISABLED
        if self.application is not None and self.user["twoFactor"]["methods"] and is_open:
            message = "The user has a second factor, which logins to the application of the access token do not show."
            raise Invalid.whole("[TwoFactorRequired]", message)


async def require_caller(services: Services, call: Call, token: str | None) -> None:
    """Raise InvalidToken for a caller who has neither an API key nor an access token."""
    if not isinstance(call.caller, ApiKeyCaller):
        (await bearer_tokens.verify(services, call, token)).require_usable_for()


async def subject(services: Services, call: Call, token: str | None, user_id: str | None) -> Subject:
    """Whom a request is about: for an API key the user it names, for an access token its own user.

    Raises Invalid for a key without a user, NotFound for an unknown user and for a token of another one, InvalidToken.
    """
    application: Document | None = None
    if isinstance(call.caller, ApiKeyCaller):
        if user_id is None:
            raise Invalid.field("missing", "userId", "You must specify the [userId].")
        tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    else:
        shown = await bearer_tokens.verify(services, call, token)
        shown.require_usable_for()
        if user_id not in {None, shown.user["id"]}:
            raise NotFound
        user_id, tenant_id = shown.user["id"], TenantId(shown.user["tenantId"])
        application = shown.token.application
    user = await services.directory.users.get(tenant_id, user_id)
    return Subject(call.within(tenant_id), await services.configuration.tenants.get(None, tenant_id), user, application)


async def send_code(services: Services, call: Call, token: str | None, body: Document) -> None:
    """Send a code to an address that is to be added, or to that of the method `methodId`, which is to be removed.

    Raises as `two_factor_methods.send_code`, and NotFound for an unknown method.
    """
    await require_caller(services, call, token)
    request = services.schemas[_SEND].read(body)
    about = await subject(services, call, token, request.get("userId"))
    application = await _application(services, about, request)
    deed: CodePurpose = "enable"
    if request.get("methodId") is None:
        address = _named_address(request)
    else:
        method = two_factor.find_method(about.user, request["methodId"])
        if method is None:
            raise NotFound
        address, deed = CodeAddress.of(method), "disable"
    await two_factor_methods.send_code(services, about.call, about.tenant, application, about.user, address, deed)


async def enable(services: Services, call: Call, token: str | None, body: Document, user_id: str | None) -> Document:
    """Add a method: `recoveryCodes` for the first one, and `code` where a login waits for it; else nothing."""
    about = await subject(services, call, token, user_id)
    about.require_challenged()
    request = services.schemas[_ENABLE].read(body)
    application = await _application(services, about, request)
    waiting = await _waiting(services, about, request.get("twoFactorId"))
    added = await two_factor_methods.enable(
        services, about.call, about.tenant, about.user, _wanted(request), request["code"], application=application
    )
    answer: Document = {}
    if added.recovery_codes:
        answer["recoveryCodes"] = list(added.recovery_codes)
    if waiting is not None:
        answer["code"] = await two_factor_challenges.issue_completion_code(services, waiting, added.method)
    return answer


async def disable(services: Services, call: Call, token: str | None, body: Document, user_id: str | None) -> None:
    """Remove a method, or all for a recovery code. Raises as `two_factor_methods.disable`."""
    about = await subject(services, call, token, user_id)
    request = services.schemas[_DISABLE].read(body)
    application = await _application(services, about, request)
    await two_factor_methods.disable(
        services,
        about.call,
        about.tenant,
        about.user,
        request["code"],
        request.get("methodId"),
        application=application,
    )


async def rename(services: Services, call: Call, body: Document, user_id: str) -> None:
    """Name a method. Raises Invalid and NotFound."""
    request = services.schemas[_RENAME].read(body)
    about = await subject(services, call, None, user_id)
    await two_factor_methods.rename(services, about.call, about.user, request["methodId"], request.get("name"))


async def retrieve_recovery_codes(services: Services, call: Call, user_id: str) -> list[str]:
    """The recovery codes that a user has left. Raises NotFound."""
    found: list[str] = (await subject(services, call, None, user_id)).user["twoFactor"]["recoveryCodes"]
    return found


async def generate_recovery_codes(services: Services, call: Call, user_id: str) -> list[str]:
    """New recovery codes. Raises NotFound, and Invalid for a user without a method."""
    about = await subject(services, call, None, user_id)
    return await two_factor_methods.generate_recovery_codes(services, about.call, about.user)


async def _application(services: Services, about: Subject, request: Document) -> Document | None:
    """The application whose templates are used. Raises Invalid."""
    if request.get("applicationId") is None:
        return None
    return (
        await clients.get_by_application_id(services, TenantId(about.tenant["id"]), request["applicationId"])
    ).application


async def _waiting(
    services: Services, about: Subject, two_factor_id: str | None
) -> two_factor_challenges.Challenge | None:
    """The login of the user that waits for a method. Raises Invalid for another's, and for one that does not wait."""
    if two_factor_id is None:
        return None
    error = Invalid.field("invalid", "twoFactorId", "The [twoFactorId] must name a login of the user that waits.")
    try:
        found = await two_factor_challenges.get_challenge(services, about.call, two_factor_id)
    except NotFound as missing:
        raise error from missing
    if found.user["id"] != about.user["id"]:
        raise error
    return found


def _wanted(request: Document) -> MethodRequest:
    """The method that a request describes. Raises Invalid for what it lacks."""
    method, name = request["method"], request.get("name")
    if method == two_factor.AUTHENTICATOR:
        return MethodRequest(method, secret=_secret(request), name=name)
    address = _named_address(request)
    assert address is not None
    return MethodRequest(method, address=address.value, name=name)


def _named_address(request: Document) -> CodeAddress | None:
    """Where a request wants codes to go; None for a method without messages. Raises Invalid."""
    method = request.get("method")
    if method is None:
        raise Invalid.field("blank", "method", "You must specify the [method] or the [methodId] property.")
    member = two_factor.ADDRESS_MEMBERS.get(method)
    if member is None:
        return None
    value = request.get(member)
    if not value:
        raise Invalid.field("blank", member, f"You must specify the [{member}] property.")
    if member == "mobilePhone" and not rules.is_dialable_number(value):
        raise Invalid.field("invalid", member, f"The [{member}] is not a phone number.")
    return CodeAddress(method, value)


def _secret(request: Document) -> str:
    """The secret of an authenticator, in whichever of the two forms it was sent. Raises Invalid."""
    member = "secretBase32Encoded" if request.get("secret") is None else "secret"
    given = request.get(member)
    if given is None:
        raise Invalid.field("blank", "secret", "You must specify the [secret] or the [secretBase32Encoded] property.")
    secret = given if member == "secret" else totp.from_base32(given)
    if secret is None or not rules.is_totp_secret(secret):
        crud.require_no_errors([FieldError.of("invalid", member, f"The [{member}] must have 16 to 128 bytes.")])
    assert secret is not None
    return str(secret)
