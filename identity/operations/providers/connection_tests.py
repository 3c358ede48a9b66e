"""Connection tests: a login through a provider that stops after the provider's answer, and reports its steps.

The provider may be disabled. A test changes no user, and issues no tokens.
"""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.providers import identity_providers as provider_rules
from identity.errors import FieldError, Invalid, NotFound, ServiceError
from identity.ids import TenantId
from identity.operations.clients.clients import Client
from identity.operations.objects import crud, features
from identity.operations.providers import identification
from identity.operations.providers.login_trace import LoginTrace
from identity.operations.users.login_responses import LoginResponse
from identity.services import Services

KIND: Final = "connectionTest"
_SCHEMA: Final = "api/identity-provider-test.request.json"


async def start(services: Services, call: Call, body: Document) -> Document:
    """Start a test for a tenant, that of the call unless it is given, and return its id. Raises Invalid."""
    request = services.schemas[_SCHEMA].read(body)
    tenant_id = TenantId(request.get("tenantId") or crud.require_tenant(call))
    tenant = None
    if call.tenant_id in {None, tenant_id}:
        tenant = await services.configuration.tenants.find_cached(None, tenant_id)
    provider = await services.configuration.identity_providers.find_cached(None, request["identityProviderId"])
    if tenant is None or provider is None or not provider_rules.is_available_to(provider, tenant_id):
        name = "tenantId" if tenant is None else "identityProviderId"
        crud.require_no_errors([FieldError.invalid(name, "must name one that the tenant can use")])
    assert tenant is not None
    test = {"identityProviderId": request["identityProviderId"], "startInstant": call.now, "steps": []}
    ttl_seconds = Lifetimes.of(tenant).connection_test_seconds
    test_id = await services.tokens.one_time_tokens.issue(
        tenant_id, KIND, request["identityProviderId"], test, ttl_seconds
    )
    return {"connectionTestId": test_id}


async def retrieve(services: Services, call: Call, test_id: str | None) -> Document:
    """Return the result of a test; without a login it has no steps. Raises NotFound, and Invalid without an id."""
    if not test_id:
        raise Invalid.field("blank", "connectionTestId", "You must specify the [connectionTestId] parameter.")
    test = await services.tokens.one_time_tokens.find(call.tenant_id, KIND, test_id)
    if test is None:
        raise NotFound(log_detail="no such connection test")
    steps = test.document["steps"]
    success = bool(steps) and all(step["success"] for step in steps)
    return {"connectionTestId": test_id, "result": {**test.document, "success": success}}


async def log_in(services: Services, call: Call, client: Client, request: Document) -> LoginResponse:
    """Identify the account of a login request and record the steps; the response has no body.

    Raises Invalid for an unknown or completed test, and whatever the identification raises.
    """
    tokens, test_id = services.tokens.one_time_tokens, request["connectionTestId"]
    test = await tokens.find(client.tenant_id, KIND, test_id)
    provider_id = request["identityProviderId"]
    provider = await services.configuration.identity_providers.find_cached(None, provider_id)
    is_open = test is not None and not test.document["steps"] and test.document["identityProviderId"] == provider_id
    if test is None or provider is None or not is_open:
        message = "The [connectionTestId] must name a test of this identity provider that has no result yet."
        raise Invalid.field("invalid", "connectionTestId", message)
    features.require_provider(services, provider)
    trace, result = LoginTrace(), dict(test.document)
    try:
        identity = await identification.by_request(services, call, provider, client, request, trace)
        members = {"email": identity.email, "identityProviderUserId": identity.unique_id, "username": identity.username}
        result |= {name: value for name, value in members.items() if value is not None}
        result["steps"] = [*_steps(trace), _step("account", identity.unique_id)]
    except ServiceError as error:
        reason = error.log_detail or error.message
        result["steps"] = [*_steps(trace), {**_step("refusal", reason), "success": False}]
        raise
    finally:
        await tokens.replace(client.tenant_id, KIND, test_id, result)
    return LoginResponse(204)


def _steps(trace: LoginTrace) -> list[Document]:
    return [_step(title, detail) for title, _, detail in (line.partition(": ") for line in trace.lines)]


def _step(title: str, detail: str) -> Document:
    return {"title": title, "success": True, "detail": detail}
