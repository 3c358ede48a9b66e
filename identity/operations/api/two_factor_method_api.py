"""The API of two-factor methods: the user of a request, and its body."""

from __future__ import annotations

import dataclasses

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.two_factor import totp, two_factor
from identity.domain.users import users as user_rules
from identity.errors import Invalid, NotFound
from identity.ids import TenantId
from identity.operations.clients import bearer_tokens, clients
from identity.operations.groups import administrators
from identity.operations.login import two_factor_challenges
from identity.operations.objects import user_lookup
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
    """The stored user of a request with the tenant; `call` is within the tenant."""

    call: Call
    tenant: Document
    user: Document
    application: Document | None = None
    """The application of the access token, if the caller used one."""

    def require_challenged(self) -> None:
        """Raise Invalid if logins to the token's application skip the second factor, and the user has one.

        Otherwise the password alone would be enough to add a method that every application accepts.
        """
        is_skipped = two_factor.login_policy(self.tenant, self.application) == two_factor.DISABLED
        if self.application is not None and self.user["twoFactor"]["methods"] and is_skipped:
            message = "The user has a second factor, which logins to the application of the access token skip."
            raise Invalid.whole("[TwoFactorRequired]", message)


async def require_caller(services: Services, call: Call, token: str | None) -> None:
    """Raise InvalidToken for a caller without an API key or an access token."""
    if not isinstance(call.caller, ApiKeyCaller):
        (await bearer_tokens.verify(services, call, token)).require_usable_for()


async def get_subject(services: Services, call: Call, token: str | None, user_id: str | None) -> Subject:
    """Return the user of a request: with an API key the given one, with an access token that of the token.

    Raises Invalid for a key without a user, NotFound for an unknown user and for a token of another one, InvalidToken.
    """
    application: Document | None = None
    if isinstance(call.caller, ApiKeyCaller):
        if user_id is None:
            raise Invalid.field("missing", "userId", "You must specify the [userId].")
        tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    else:
        bearer = await bearer_tokens.verify(services, call, token)
        bearer.require_usable_for()
        await bearer_tokens.require_own_account(services, bearer)
        if user_id not in {None, bearer.user["id"]}:
            raise NotFound
        user_id, tenant_id = bearer.user["id"], TenantId(bearer.user["tenantId"])
        application = bearer.token.application
    user = await services.directory.users.get(tenant_id, user_id)
    await administrators.require_authority(services, call, user)
    return Subject(call.within(tenant_id), await services.configuration.tenants.get(None, tenant_id), user, application)


async def send_code(services: Services, call: Call, token: str | None, body: Document) -> None:
    """Send a code to a new address, or to that of the method `methodId` to remove it.

    Raises as `two_factor_methods.send_code`, and NotFound for an unknown method.
    """
    await require_caller(services, call, token)
    request = services.schemas[_SEND].read(body)
    subject = await get_subject(services, call, token, request.get("userId"))
    application = await _find_application(services, subject, request)
    purpose: CodePurpose = "enable"
    if request.get("methodId") is None:
        address = _requested_address(request)
    else:
        method = two_factor.find_method(subject.user, request["methodId"])
        if method is None:
            raise NotFound
        address, purpose = CodeAddress.of(method), "disable"
    await two_factor_methods.send_code(
        services, subject.call, subject.tenant, application, subject.user, address, purpose
    )


async def enable(services: Services, call: Call, token: str | None, body: Document, user_id: str | None) -> Document:
    """Add a method; return `recoveryCodes` for the first one, and `code` for the login `twoFactorId`."""
    subject = await get_subject(services, call, token, user_id)
    subject.require_challenged()
    request = services.schemas[_ENABLE].read(body)
    application = await _find_application(services, subject, request)
    challenge = await _find_challenge(services, subject, request.get("twoFactorId"))
    added = await two_factor_methods.enable(
        services,
        subject.call,
        subject.tenant,
        subject.user,
        _method_request(request),
        request["code"],
        application=application,
    )
    response: Document = {}
    if added.recovery_codes:
        response["recoveryCodes"] = list(added.recovery_codes)
    if challenge is not None:
        response["code"] = await two_factor_challenges.issue_completion_code(services, challenge, added.method)
    return response


async def disable(services: Services, call: Call, token: str | None, body: Document, user_id: str | None) -> None:
    """Remove a method, or all for a recovery code. Raises as `two_factor_methods.disable`."""
    subject = await get_subject(services, call, token, user_id)
    request = services.schemas[_DISABLE].read(body)
    application = await _find_application(services, subject, request)
    code, method_id = request["code"], request.get("methodId")
    await two_factor_methods.disable(
        services, subject.call, subject.tenant, subject.user, code, method_id, application=application
    )


async def rename(services: Services, call: Call, body: Document, user_id: str) -> None:
    """Rename a method. Raises Invalid and NotFound."""
    request = services.schemas[_RENAME].read(body)
    subject = await get_subject(services, call, None, user_id)
    await two_factor_methods.rename(services, subject.call, subject.user, request["methodId"], request.get("name"))


async def retrieve_recovery_codes(services: Services, call: Call, user_id: str) -> list[str]:
    """Return the unused recovery codes of a user. Raises NotFound."""
    codes: list[str] = (await get_subject(services, call, None, user_id)).user["twoFactor"]["recoveryCodes"]
    return codes


async def generate_recovery_codes(services: Services, call: Call, user_id: str) -> list[str]:
    """Replace the recovery codes. Raises NotFound, and Invalid for a user without a method."""
    subject = await get_subject(services, call, None, user_id)
    return await two_factor_methods.generate_recovery_codes(services, subject.call, subject.user)


async def _find_application(services: Services, subject: Subject, request: Document) -> Document | None:
    """Return the application whose templates are used. Raises Invalid."""
    tenant_id = TenantId(subject.tenant["id"])
    return clients.application_of(
        await clients.find_by_application_id(services, tenant_id, request.get("applicationId"))
    )


async def _find_challenge(
    services: Services, subject: Subject, two_factor_id: str | None
) -> two_factor_challenges.Challenge | None:
    """Return the challenge of a login that requires a method. Raises Invalid for that of another user."""
    if two_factor_id is None:
        return None
    error = Invalid.field("invalid", "twoFactorId", "The [twoFactorId] must be that of a pending login of the user.")
    try:
        challenge = await two_factor_challenges.get_challenge(services, subject.call, two_factor_id)
    except NotFound as missing:
        raise error from missing
    if challenge.user["id"] != subject.user["id"]:
        raise error
    return challenge


def _method_request(request: Document) -> MethodRequest:
    """Return the method of a request. Raises Invalid for missing members."""
    method, name = request["method"], request.get("name")
    if method == two_factor.AUTHENTICATOR:
        return MethodRequest(method, secret=_secret(request), name=name)
    address = _requested_address(request)
    assert address is not None
    return MethodRequest(method, address=address.value, name=name)


def _requested_address(request: Document) -> CodeAddress | None:
    """Return the address for codes; None for a method without messages. Raises Invalid."""
    method = request.get("method")
    if method is None:
        raise Invalid.field("blank", "method", "You must specify the [method] or the [methodId] property.")
    member = two_factor.ADDRESS_MEMBERS.get(method)
    if member is None:
        return None
    value = request.get(member)
    if not value:
        raise Invalid.field("blank", member, f"You must specify the [{member}] property.")
    if member == "mobilePhone" and not user_rules.is_dialable_number(value):
        raise Invalid.field("invalid", member, f"The [{member}] is not a phone number.")
    return CodeAddress(method, value)


def _secret(request: Document) -> str:
    """Return the secret of an authenticator app, in either of its two forms. Raises Invalid."""
    member = "secretBase32Encoded" if request.get("secret") is None else "secret"
    value = request.get(member)
    if value is None:
        raise Invalid.field("blank", "secret", "You must specify the [secret] or the [secretBase32Encoded] property.")
    secret = value if member == "secret" else totp.from_base32(value)
    if secret is None or not user_rules.is_totp_secret(secret):
        raise Invalid.field("invalid", member, f"The [{member}] must have 16 to 128 bytes.")
    return str(secret)
