"""The end of an SSO session (OpenID Connect RP-Initiated Logout 1.0, Front-Channel Logout 1.0).

Refresh tokens and access tokens live on. Nobody is ever sent to a URL that was not configured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain import profiles, redirect_uris
from identity.errors import AccessDenied, InvalidRequest, WebhookTransactionFailed
from identity.ids import TenantId, parse_id
from identity.operations import clients, session_records, sso
from identity.operations.clients import Client, TenantHints
from identity.services import Services
from identity.store.sso_sessions import SsoSession
from identity.tokens.jws import Rejection

HOME = "/"


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """Nothing was ended yet: another site wants this, and the user has to agree."""

    tenant: Document


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedOut:
    """The session is over; `frame_urls` tell the applications, then the browser goes to `target`."""

    target: str
    frame_urls: tuple[str, ...]
    tenant: Document
    application: Document | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """Who wants to log out of what."""

    tenant: Document
    client: Client | None

    @property
    def is_explained(self) -> bool:
        """Whether the request says at all which application or user it is about."""
        return self.client is not None


async def logout(
    services: Services,
    call: Call,
    given: Mapping[str, str],
    hints: TenantHints,
    sso_secret: str,
    *,
    is_from_elsewhere: bool,
) -> Asked | LoggedOut:
    """End the browser's session and say where to go.

    Raises InvalidRequest, and AccessDenied where a webhook vetoes the end; then nothing has ended.

    A request of another site that names neither application nor ID token is no application's logout: the user is
    asked. One that names them is obeyed, because applications log their users out across sites.
    """
    wanted = await _wanted(services, given, hints)
    target = _target(wanted, given)
    if is_from_elsewhere and not wanted.is_explained:
        return Asked(wanted.tenant)
    tenant_id = TenantId(wanted.tenant["id"])
    session = await _end(services, call.within(tenant_id), tenant_id, sso_secret) if sso_secret else None
    frame_urls = await _frame_urls(services, wanted, session, target)
    return LoggedOut(target, frame_urls, wanted.tenant, None if wanted.client is None else wanted.client.application)


async def _end(services: Services, call: Call, tenant_id: TenantId, secret: str) -> SsoSession | None:
    """End the session where no webhook vetoes it; they know it as a refresh token of no application."""
    if await services.bus.is_heard(tenant_id, session_records.REVOKED):
        seen = await services.sso_sessions.find(tenant_id, secret)
        user = None if seen is None else await services.users.find(tenant_id, seen.user_id)
        if seen is not None and user is not None:
            try:
                record = session_records.of(tenant_id, seen)
                await services.bus.offer(call, [session_records.revocation(record, user)])
            except WebhookTransactionFailed as error:
                raise AccessDenied("unknown", "A webhook refused the end of this session.") from error
    return await sso.end(services, call, tenant_id, secret)


async def _wanted(services: Services, given: Mapping[str, str], hints: TenantHints) -> _Wanted:
    """The tenant and client of a request. An ID token proves itself by our signature, expired or not."""
    hinted = None
    if "id_token_hint" in given:
        hint = await services.tokens.verify_id_token_hint(given["id_token_hint"], clients.finder(services))
        if isinstance(hint, Rejection):
            raise _invalid_hint("The id_token_hint is no ID token of this service.")
        hinted = hint.application["id"]
    client_id = given.get("client_id", hinted)
    if hinted is not None and parse_id(client_id) != hinted:
        raise _invalid_hint("The id_token_hint was issued to another client.")
    if client_id is not None:
        client = await clients.find(services, hints, client_id)
        return _Wanted(client.tenant, client)
    tenant = await clients.named_tenant(services, hints) or await clients.default_tenant(services)
    return _Wanted(tenant, None)


def _target(wanted: _Wanted, given: Mapping[str, str]) -> str:
    """Where the browser goes: the first of post_logout_redirect_uri, the application's and the tenant's logoutURL."""
    uri, client = given.get("post_logout_redirect_uri"), wanted.client
    if uri is not None:
        if client is None or not profiles.is_authorized(uri, client.application):
            reason = "invalid_post_logout_redirect_uri"
            raise InvalidRequest(reason, f"Invalid post_logout_redirect_uri {uri}")
        return redirect_uris.with_query(uri, {"state": given["state"]} if "state" in given else {})
    own = None if client is None else client.oauth.get("logoutURL")
    return str(own or wanted.tenant.get("logoutURL") or HOME)


async def _frame_urls(services: Services, wanted: _Wanted, session: SsoSession | None, target: str) -> tuple[str, ...]:
    """The logout URLs of the applications that are told, with the session's issuer and id where one ended."""
    tenant = wanted.tenant
    behavior = "AllApplications" if wanted.client is None else wanted.client.oauth["logoutBehavior"]
    if behavior == "RedirectOnly":
        return ()
    applications = await services.applications.cached_list(TenantId(tenant["id"]), "all", {})
    known = {} if session is None else {"iss": tenant["issuer"], "sid": session.session_id}
    joined = frozenset[str]() if session is None else session.client_ids
    urls = {
        application["oauthConfiguration"]["logoutURL"]
        for application in applications
        if application["active"]
        and application["oauthConfiguration"].get("logoutURL")
        and (behavior == "AllApplications" or application["id"] in joined)
    }
    return tuple(redirect_uris.with_query(url, known) for url in sorted(urls - {target}) if url.startswith("http"))


def _invalid_hint(description: str) -> InvalidRequest:
    return InvalidRequest("invalid_id_token_hint", description)
