"""The two-factor status of a user: whether a login or another action requires a second factor."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.two_factor import two_factor
from identity.errors import Invalid
from identity.operations.clients import clients
from identity.operations.objects import user_lookup
from identity.operations.two_factor import two_factor_trust
from identity.operations.users.login_responses import LoginResponse
from identity.services import Services

_REQUEST = "api/two-factor-status.request.json"


async def retrieve(services: Services, call: Call, body: Document) -> LoginResponse:
    """Return 242 if a second factor is required and 200 otherwise, with the trust of the given device.

    A trusted device skips the second factor of logins only, not of password changes and step-up authentication. Raises
    Invalid, and NotFound for an unknown user.
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
    if request["action"] == "login":
        is_required = two_factor.is_challenged(tenant, application, user, is_trusted=bool(trusts))
    else:
        has_methods = bool(user["twoFactor"]["methods"])
        is_required = has_methods and two_factor.login_policy(tenant, application) != "Disabled"
    return LoginResponse(242 if is_required else 200, body)
