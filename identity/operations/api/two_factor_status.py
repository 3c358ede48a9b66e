"""The two-factor status of a user: whether a login or another action requires a second factor."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.login.login_outcomes import Authenticated
from identity.errors import Invalid, OAuth2Error
from identity.operations.clients import bearer_tokens, clients
from identity.operations.login import second_factor_decisions
from identity.operations.objects import user_lookup
from identity.operations.two_factor import two_factor_trust
from identity.operations.users.login_responses import LoginResponse
from identity.services import Services

_REQUEST = "api/two-factor-status.request.json"


async def retrieve(services: Services, call: Call, body: Document) -> LoginResponse:
    """Return 242 if a second factor is required and 200 otherwise, with the trust of the given device.

    A trusted device skips the second factor of logins only, not of password changes and step-up authentication. An
    MFARequirement lambda decides as it would about the action itself; it receives the claims of a valid `accessToken`
    of the user. Raises Invalid, and NotFound for an unknown user.
    """
    request = services.schemas[_REQUEST].read(body)
    if request.get("userId") is None:
        raise Invalid.field("missing", "userId", "You must specify the [userId] property.")
    tenant_id = await user_lookup.get_tenant_id(services, call, request["userId"])
    user = await services.directory.users.get(tenant_id, request["userId"])
    tenant = await services.configuration.tenants.get(None, tenant_id)
    client = await clients.find_by_application_id(services, tenant_id, request.get("applicationId"))
    application = clients.application_of(client)
    trust_id = request.get("twoFactorTrustId")
    trusts = await two_factor_trust.find_valid_trusts(services, call, user, application, trust_id)
    body = {"trusts": list(trusts), "twoFactorTrustId": trust_id} if trusts else {}
    if request["action"] == second_factor_decisions.LOGIN:
        login = Authenticated(tenant, application, user, call.now)
        is_required = await second_factor_decisions.is_required_for_login(services, call, login, trust_id)
    else:
        jwt = await _claims(services, call, user, request.get("accessToken"))
        is_required = await second_factor_decisions.is_required_for_action(
            services, call, tenant, application, user, request["action"], trust_secret=trust_id, jwt=jwt
        )
    return LoginResponse(242 if is_required else 200, body)


async def _claims(services: Services, call: Call, user: Document, token: str | None) -> Document | None:
    """Return the claims of a valid access token of the user; None for any other value."""
    if token is None:
        return None
    try:
        bearer = await bearer_tokens.verify(services, call, token)
    except OAuth2Error:
        return None
    return dict(bearer.token.claims) if bearer.user["id"] == user["id"] else None
