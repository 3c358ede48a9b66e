"""Access tokens over the API: is one good, one for another application, and one with claims of the caller's own."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.clients.refresh_tokens import RefreshToken
from identity.domain.login import login_outcomes
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.two_factor import two_factor
from identity.domain.users import users
from identity.errors import Invalid, Unauthorized
from identity.ids import TenantId, UserId, new_id
from identity.instants import Instant, numeric_date
from identity.operations.clients import bearer_tokens, clients
from identity.operations.clients.bearer_tokens import Bearer
from identity.operations.clients.clients import Client
from identity.operations.lambdas import token_lambdas
from identity.operations.objects import key_assignments, references
from identity.operations.users.login_responses import LoginResponse
from identity.services import Services
from identity.tokens.access_tokens import TokenContext

_VEND = "api/jwt-vend.request.json"


async def validate(services: Services, call: Call, token: str | None) -> Document:
    """The claims of an access token that holds. Raises InvalidToken."""
    found = await bearer_tokens.verify(services, call, token)
    return found.token.claims


async def issue(
    services: Services, call: Call, token: str | None, application_id: str, refresh_token: str | None
) -> LoginResponse:
    """A token of the bearer for another application of the tenant, good for as long as the one that was shown.

    202 for a user who is not registered there. A refresh token comes with it only for one of the same user that holds,
    where the application gives any; it counts its time from that one's start. Raises Invalid and InvalidToken, and
    Unauthorized where a login to that application would stop at what the token does not prove.
    """
    shown = await bearer_tokens.verify(services, call, token)
    shown.require_usable_for(application_id)
    tenant_id = TenantId(shown.token.tenant["id"])
    client = await clients.get_by_application_id(services, tenant_id, application_id)
    if not security_profiles.allows_tokens_by_api(client.application):
        message = "The application named by [applicationId] gets its tokens from the token endpoint alone."
        raise Invalid.field("invalid", "applicationId", message)
    _require_no_halt(call, shown, client)
    registration = users.find_registration(shown.user, client.client_id)
    login = TokenContext(client.tenant, client.application, shown.user, (), (), "JWT_SSO", call.now)
    remaining = max(1, int(shown.token.claims["exp"]) - numeric_date(call.now))
    body: Document = {}
    if registration is not None and refresh_token:
        body = await _refresh_token(services, call, client, shown, refresh_token)
    issued = await token_lambdas.access_token(services, call, login, ttl=remaining)
    return LoginResponse(202 if registration is None else 200, {**body, "token": issued.token})


async def vend(services: Services, call: Call, body: Document) -> Document:
    """A token with the claims of the caller, signed by the service, which sets exp, iat and jti.

    Without a tenant the settings of the default tenant apply. A tenant-scoped caller gets tokens of its own tenant
    alone: iss and tid are the tenant's, and so is the key. Raises Invalid.
    """
    request = services.schemas[_VEND].read(body)
    tenant = await services.configuration.tenants.get(None, call.tenant_id or services.runtime.default_tenant_id)
    settings = tenant["jwtConfiguration"]
    ttl = request.get("timeToLiveInSeconds") or settings["timeToLiveInSeconds"]
    now = numeric_date(call.now)
    claims = {**request["claims"], "exp": now + ttl, "iat": now, "jti": new_id()}
    if call.caller.tenant_id is not None:
        claims |= {"iss": tenant["issuer"], "tid": tenant["id"]}
    key_id = request.get("keyId")
    if key_id is not None:
        await _require_own_key(services, call, tenant, key_id)
    try:
        return {"token": await services.tokens.issuer.vend(key_id or settings["accessTokenKeyId"], claims, tenant)}
    except (LookupError, ValueError) as error:
        raise Invalid.field("invalid", "keyId", "The [keyId] must name a key that signs.") from error


async def _require_own_key(services: Services, call: Call, tenant: Document, key_id: str) -> None:
    """Raise Invalid for a key of another tenant, a webhook or an identity provider.

    A caller that is not bound to a tenant may also name a key that nothing refers to.
    """
    if key_id in await key_assignments.signing_keys_of(services, tenant):
        return
    is_free = call.caller.tenant_id is None and not await references.is_key_referenced(services, key_id, call.now)
    if not is_free:
        raise Invalid.field("invalid", "keyId", "The [keyId] must name a key that the tenant signs with.")


def _require_no_halt(call: Call, shown: Bearer, client: Client) -> None:
    """Raise Unauthorized where a login to the application would not be complete.

    An application that asks for less, be it a second factor or a verified registration, is no way to one that asks for
    more. That the token was given tells of a second factor where its own application asks for one.
    """
    tenant, user = client.tenant, shown.user
    was_challenged = two_factor.is_challenged(tenant, shown.token.application, user, is_trusted=False)
    halt = login_outcomes.find_halt(
        Authenticated(tenant, client.application, user, call.now, is_federated=True, has_second_factor=was_challenged)
    )
    if halt is not None:
        raise Unauthorized(log_detail=f"a login to the application would end as {type(halt).__name__}")


async def _refresh_token(services: Services, call: Call, client: Client, shown: Bearer, value: str) -> Document:
    """Issue a refresh token for another application to the user of a live one. Raises Unauthorized."""
    presented = await services.tokens.refresh_tokens.find_by_value(client.tenant_id, value, call.now)
    if presented is None or not presented.is_current or presented.record["userId"] != shown.user["id"]:
        raise Unauthorized(log_detail="the refresh token is none of the user's")
    if presented.record["private"].get("dpopJkt") is not None:
        raise Unauthorized(log_detail="the refresh token is bound to a key")
    if not client.application["loginConfiguration"]["generateRefreshTokens"]:
        return {}
    old = presented.record
    refresh_token = RefreshToken(UserId(shown.user["id"]), client.client_id, (), Instant(old["insertInstant"]))
    record = refresh_token.new_record(old["metaData"]["device"], call.now)
    # Otherwise a token for another application, and back, would begin its longest life anew.
    record |= {name: old[name] for name in ("insertInstant", "startInstant")}
    expires = client.refresh_policy.expires(old["insertInstant"], old["startInstant"])
    if expires <= call.now:
        return {}
    stored = await services.tokens.refresh_tokens.insert(client.tenant_id, record, expires)
    return {"refreshToken": stored["token"]}
