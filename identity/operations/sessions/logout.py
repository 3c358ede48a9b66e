"""Logout: the end of an SSO session (OpenID Connect RP-Initiated Logout 1.0, Front-Channel Logout 1.0).

Refresh tokens and access tokens stay valid. The browser is only redirected to configured URLs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.clients import redirect_uris, security_profiles
from identity.errors import AccessDenied, InvalidRequest, WebhookTransactionFailed
from identity.ids import TenantId
from identity.operations.clients import clients
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.sessions import sso_session_records, sso_sessions
from identity.services import Services
from identity.store.browser_sessions import SsoSession
from identity.tokens.jws import Rejection

HOME = "/"


@dataclasses.dataclass(frozen=True, slots=True)
class ConfirmationRequired:
    """The session has not ended: the user has to confirm a logout that another site requested.

    `target` is where the browser goes after the confirmation.
    """

    target: str
    tenant: Document
    application: Document | None


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedOut:
    """The session has ended: the page loads the `frame_urls` of the applications, then redirects to `target`.

    `has_ended_session` is False if the browser had no live session in this tenant. `provider_session` is what a logout
    at the identity provider of the session needs, if that should end as well.
    """

    has_ended_session: bool
    target: str
    frame_urls: tuple[str, ...]
    tenant: Document
    application: Document | None
    provider_session: Document | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Where a logout request comes from, as the browser reports it.

    `is_other_origin` includes other hosts of the same site, `is_cross_site` does not.
    """

    is_other_origin: bool
    is_cross_site: bool


SAME_ORIGIN: Final = Origin(is_other_origin=False, is_cross_site=False)
"""The origin of a request that the user confirmed on a page of this service."""
CROSS_SITE: Final = Origin(is_other_origin=True, is_cross_site=True)
"""The origin of a request without any evidence that it comes from this service."""


@dataclasses.dataclass(frozen=True, slots=True)
class _LogoutRequest:
    """The tenant and client that a request names, and the claims of its id_token_hint."""

    tenant: Document
    client: Client | None
    hint: Document | None = None

    @property
    def application(self) -> Document | None:
        """The application of the client, if there is one."""
        return None if self.client is None else self.client.application


async def logout(
    services: Services, call: Call, parameters: Mapping[str, str], hints: TenantHints, sso_secret: str, origin: Origin
) -> ConfirmationRequired | LoggedOut:
    """End the browser's session and return where to redirect it, or require the user's confirmation first.

    Raises InvalidRequest, and AccessDenied if a webhook vetoes the logout; then the session continues.
    """
    request = await _read_request(services, parameters, hints)
    target = _target(request, parameters)
    if await _needs_confirmation(services, request, sso_secret, origin):
        return ConfirmationRequired(target, request.tenant, request.application)
    tenant_id = TenantId(request.tenant["id"])
    session = await _end_session(services, call.within(tenant_id), tenant_id, sso_secret) if sso_secret else None
    frame_urls = await _frame_urls(services, request, session, target)
    provider = None if session is None else services.sessions.sso_sessions.open_provider_session(session)
    return LoggedOut(session is not None, target, frame_urls, request.tenant, request.application, provider)


async def _needs_confirmation(services: Services, request: _LogoutRequest, sso_secret: str, origin: Origin) -> bool:
    """Whether the user has to confirm the logout (RP-Initiated Logout 1.0 section 2, cross-site request forgery).

    Any site can send a browser here with a public client_id. A cross-site request ends a session directly only with an
    ID token of that session; a request without client and ID token never does so from another origin.
    """
    if request.client is None:
        return origin.is_other_origin
    if not (origin.is_cross_site and sso_secret):
        return False
    session = await services.sessions.sso_sessions.find(TenantId(request.tenant["id"]), sso_secret)
    return session is not None and not _is_of_session(request.hint, session)


def _is_of_session(hint: Document | None, session: SsoSession) -> bool:
    """Whether an ID token was issued in this session or, if it has no `sid`, to the session's user."""
    return (
        hint is not None
        and hint["sub"] == session.user_id
        and hint.get("sid", session.session_id) == session.session_id
    )


async def _end_session(services: Services, call: Call, tenant_id: TenantId, secret: str) -> SsoSession | None:
    """End the session unless a webhook vetoes it; the event has it as a refresh token without an application."""
    if await services.bus.has_subscribers(tenant_id, sso_session_records.REVOCATION_EVENT):
        session = await services.sessions.sso_sessions.find(tenant_id, secret)
        user = None if session is None else await services.directory.users.find(tenant_id, session.user_id)
        if session is not None and user is not None:
            try:
                record = sso_session_records.from_session(tenant_id, session)
                await services.bus.request_approval(call, [sso_session_records.revocation(record, user)])
            except WebhookTransactionFailed as error:
                raise AccessDenied("unknown", "A webhook vetoed this logout.") from error
    return await sso_sessions.end(services, call, tenant_id, secret)


async def _read_request(services: Services, parameters: Mapping[str, str], hints: TenantHints) -> _LogoutRequest:
    """Return the tenant and client of a request. An ID token needs a valid signature, but may have expired.

    With a client_id the ID token need not be one of that client: then it is ignored, and proves no session.
    """
    hinted = claims = None
    client_id = parameters.get("client_id")
    if "id_token_hint" in parameters:
        hint = await services.tokens.issuer.verify_id_token_hint(
            parameters["id_token_hint"], clients.client_finder(services)
        )
        if not isinstance(hint, Rejection):
            hinted, claims = hint.application["id"], hint.claims
        elif client_id is None:
            raise _invalid_hint("The id_token_hint is not an ID token of this service.")
    if client_id is not None or hinted is not None:
        client = await clients.get_client(services, hints, client_id or hinted)
        return _LogoutRequest(client.tenant, client, claims if client.client_id == hinted else None)
    tenant = await clients.find_named_tenant(services, hints) or await clients.get_default_tenant(services)
    return _LogoutRequest(tenant, None)


def _target(request: _LogoutRequest, parameters: Mapping[str, str]) -> str:
    """Return the redirect target: post_logout_redirect_uri, else the logoutURL of the application or the tenant."""
    uri, client = parameters.get("post_logout_redirect_uri"), request.client
    if uri is not None:
        reason = "invalid_post_logout_redirect_uri"
        if client is None:
            missing = "The request has neither an id_token_hint nor a client_id, one of which is required with"
            raise InvalidRequest(reason, f"{missing} post_logout_redirect_uri.")
        if not security_profiles.is_redirect_uri_authorized(uri, client.application):
            description = "Invalid post_logout_redirect_uri: it is not one of the application's"
            raise InvalidRequest(reason, description, log_detail=f"the post_logout_redirect_uri is {uri[:500]}")
        return redirect_uris.with_query(uri, {"state": parameters["state"]} if "state" in parameters else {})
    own = None if client is None else client.oauth.logout_url
    return str(own or request.tenant.get("logoutURL") or HOME)


async def _frame_urls(
    services: Services, request: _LogoutRequest, session: SsoSession | None, target: str
) -> tuple[str, ...]:
    """Return the front-channel logout URLs, with the issuer and id of the session if one ended."""
    tenant = request.tenant
    behavior = "AllApplications" if request.client is None else request.client.oauth.logout_behavior
    if behavior == "RedirectOnly":
        return ()
    applications = await services.configuration.applications.list_cached(TenantId(tenant["id"]), "all", {})
    session_members = {} if session is None else {"iss": tenant["issuer"], "sid": session.session_id}
    joined = frozenset[str]() if session is None else session.client_ids
    urls = {
        application["oauthConfiguration"]["logoutURL"]
        for application in applications
        if application["active"]
        and application["oauthConfiguration"].get("logoutURL")
        and (behavior == "AllApplications" or application["id"] in joined)
    }
    return tuple(
        redirect_uris.with_query(url, session_members) for url in sorted(urls - {target}) if url.startswith("http")
    )


def _invalid_hint(description: str) -> InvalidRequest:
    return InvalidRequest("invalid_id_token_hint", description)
