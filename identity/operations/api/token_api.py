"""The access token API: validation, tokens for another application, and tokens with custom claims."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.clients.refresh_tokens import RefreshToken
from identity.domain.configuration.token_settings import ACCESS_MEMBER, TokenSettings
from identity.domain.login import login_outcomes
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.objects.owner_settings import LoginSettings
from identity.domain.two_factor import two_factor
from identity.domain.users import users
from identity.errors import Invalid, Unauthorized
from identity.ids import TenantId, UserId, new_id
from identity.instants import Instant, numeric_date
from identity.operations.clients import bearer_tokens, clients
from identity.operations.clients.bearer_tokens import Bearer
from identity.operations.clients.clients import Client
from identity.operations.lambdas import token_lambdas
from identity.operations.login import second_factor_decisions
from identity.operations.objects import key_assignments, references
from identity.operations.users.login_responses import LoginResponse
from identity.services import Services
from identity.tokens.access_tokens import TokenContext

_VEND = "api/jwt-vend.request.json"


async def validate(services: Services, call: Call, token: str | None) -> Document:
    """Return the claims of a valid access token. Raises InvalidToken."""
    return (await bearer_tokens.verify(services, call, token, accepts_exchanged=True)).token.claims


async def issue(
    services: Services, call: Call, token: str | None, application_id: str, refresh_token: str | None
) -> LoginResponse:
    """Issue an access token for another application of the tenant, with the remaining lifetime of the given one.

    The status is 202 if the user is not registered for it. With a valid refresh token of the user, the response has a
    refresh token, if the application issues them; its lifetime starts with that of the given one. Raises Invalid and
    InvalidToken, and Unauthorized if a login to the application would require more than the token proves.
    """
    bearer = await bearer_tokens.verify(services, call, token)
    bearer.require_usable_for(application_id)
    tenant_id = TenantId(bearer.token.tenant["id"])
    client = await clients.get_by_application_id(services, tenant_id, application_id)
    if not security_profiles.allows_tokens_by_api(client.application):
        message = "The application of the [applicationId] receives tokens only from the token endpoint."
        raise Invalid.field("invalid", "applicationId", message)
    await _require_no_halt(services, call, bearer, client)
    registration = users.find_registration(bearer.user, client.client_id)
    login = TokenContext(client.tenant, client.application, bearer.user, (), (), "JWT_SSO", call.now)
    remaining = max(1, int(bearer.token.claims["exp"]) - numeric_date(call.now))
    body: Document = {}
    if registration is not None and refresh_token:
        body = await _issue_refresh_token(services, call, client, bearer, refresh_token)
    issued = await token_lambdas.access_token(services, call, login, ttl=remaining)
    return LoginResponse(202 if registration is None else 200, {**body, "token": issued.token})


async def vend(services: Services, call: Call, body: Document) -> Document:
    """Sign a token with the claims of the caller; the service sets exp, iat and jti.

    Without a tenant the settings of the default tenant apply. For tenant-scoped callers, iss, tid and the key are those
    of their tenant. Raises Invalid.
    """
    request = services.schemas[_VEND].read(body)
    tenant = await services.configuration.tenants.get(None, call.tenant_id or services.runtime.default_tenant_id)
    settings = TokenSettings.of(tenant)
    ttl = request.get("timeToLiveInSeconds") or settings.ttl_seconds
    now = numeric_date(call.now)
    claims = {**request["claims"], "exp": now + ttl, "iat": now, "jti": new_id()}
    if call.caller.tenant_id is not None:
        claims |= {"iss": tenant["issuer"], "tid": tenant["id"]}
    key_id = request.get("keyId")
    if key_id is not None:
        await _require_own_key(services, call, tenant, key_id)
    try:
        signing_key = key_id or settings.signing_key(ACCESS_MEMBER)
        return {"token": await services.tokens.issuer.vend(signing_key, claims, tenant)}
    except (LookupError, ValueError) as error:
        raise Invalid.field("invalid", "keyId", "The [keyId] must be the id of a signing key.") from error


async def _require_own_key(services: Services, call: Call, tenant: Document, key_id: str) -> None:
    """Raise Invalid for a key of another tenant, a webhook or an identity provider.

    Global callers may also use an unreferenced key.
    """
    if key_id in await key_assignments.signing_keys_of(services, tenant):
        return
    is_global = call.caller.tenant_id is None
    if not is_global or await references.is_key_referenced(services, key_id, call.now):
        raise Invalid.field("invalid", "keyId", "The [keyId] must be the id of a signing key of the tenant.")


async def _require_no_halt(services: Services, call: Call, bearer: Bearer, client: Client) -> None:
    """Raise Unauthorized if a login to the application would not be complete.

    A token of an application with weaker requirements must not give access to one with stricter ones. The token proves
    a second factor if its own application requires one.
    """
    tenant, user = client.tenant, bearer.user
    was_challenged = two_factor.proves_second_factor(tenant, bearer.token.application, client.application, user)
    login = Authenticated(
        tenant, client.application, user, call.now, is_federated=True, has_second_factor=was_challenged
    )
    halt = login_outcomes.find_halt(await second_factor_decisions.decide(services, call, login, None))
    if halt is not None:
        raise Unauthorized(log_detail=f"a login to the application would end as {type(halt).__name__}")


async def _issue_refresh_token(services: Services, call: Call, client: Client, bearer: Bearer, value: str) -> Document:
    """Issue a refresh token for another application to the user of a live one. Raises Unauthorized."""
    presented = await services.tokens.refresh_tokens.find_by_value(client.tenant_id, value, call.now)
    if presented is None or not presented.is_current or presented.record["userId"] != bearer.user["id"]:
        raise Unauthorized(log_detail="the refresh token is not one of the user")
    if RefreshToken.from_record(presented.record).is_bound:
        raise Unauthorized(log_detail="the refresh token is bound to a key")
    if not LoginSettings.of(client.application).generate_refresh_tokens:
        return {}
    old = presented.record
    refresh_token = RefreshToken(UserId(bearer.user["id"]), client.client_id, (), Instant(old["insertInstant"]))
    record = refresh_token.new_record(old["metaData"]["device"], call.now)
    # Otherwise exchanging tokens back and forth would extend the maximum lifetime.
    record |= {name: old[name] for name in ("insertInstant", "startInstant")}
    expires = client.refresh_policy.expires(old["insertInstant"], old["startInstant"])
    if expires <= call.now:
        return {}
    stored = await services.tokens.refresh_tokens.insert(client.tenant_id, record, expires)
    return {"refreshToken": stored["token"]}
