"""The end of an SSO session (OpenID Connect RP-Initiated Logout 1.0, Front-Channel Logout 1.0).

Refresh tokens and access tokens live on. Nobody is ever sent to a URL that was not configured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.clients import redirect_uris, security_profiles
from identity.errors import AccessDenied, InvalidRequest, WebhookTransactionFailed
from identity.ids import TenantId, parse_id
from identity.operations.clients import clients
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.sessions import sso_session_records, sso_sessions
from identity.services import Services
from identity.store.sso_sessions import SsoSession
from identity.tokens.jws import Rejection

HOME = "/"


@dataclasses.dataclass(frozen=True, slots=True)
class ConfirmationRequired:
    """Nothing has ended yet: the user has to confirm a logout that another site requested.

    `target` is where the browser goes once the user has confirmed.
    """

    target: str
    tenant: Document
    application: Document | None


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedOut:
    """The session is over; `frame_urls` tell the applications, then the browser goes to `target`.

    `has_ended_session` is False where the browser had no live session in this tenant.
    """

    has_ended_session: bool
    target: str
    frame_urls: tuple[str, ...]
    tenant: Document
    application: Document | None


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Where a logout request comes from, as the browser reports it.

    `is_other_origin` includes other hosts of the same site, `is_cross_site` does not.
    """

    is_other_origin: bool
    is_cross_site: bool


SAME_ORIGIN: Final = Origin(is_other_origin=False, is_cross_site=False)
"""The origin of a request that the user confirmed on a page of ours."""
CROSS_SITE: Final = Origin(is_other_origin=True, is_cross_site=True)
"""The origin of a request that nothing shows to be ours."""


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
    services: Services,
    call: Call,
    given: Mapping[str, str],
    hints: TenantHints,
    sso_secret: str,
    origin: Origin,
) -> ConfirmationRequired | LoggedOut:
    """End the browser's session and say where to go, or require the user's confirmation first.

    Raises InvalidRequest, and AccessDenied where a webhook vetoes the end; then nothing has ended.
    """
    wanted = await _read_request(services, given, hints)
    target = _target(wanted, given)
    if await _needs_confirmation(services, wanted, sso_secret, origin):
        return ConfirmationRequired(target, wanted.tenant, wanted.application)
    tenant_id = TenantId(wanted.tenant["id"])
    session = await _end_session(services, call.within(tenant_id), tenant_id, sso_secret) if sso_secret else None
    frame_urls = await _frame_urls(services, wanted, session, target)
    return LoggedOut(session is not None, target, frame_urls, wanted.tenant, wanted.application)


async def _needs_confirmation(services: Services, wanted: _LogoutRequest, sso_secret: str, origin: Origin) -> bool:
    """Whether the user has to confirm (RP-Initiated Logout 1.0 section 2, cross-site request forgery).

    Any site can send a browser here with a public client_id. A cross-site request ends a session at once only with an
    ID token of that session; one without client or ID token is never at once from another origin.
    """
    if wanted.client is None:
        return origin.is_other_origin
    if not (origin.is_cross_site and sso_secret):
        return False
    session = await services.sso_sessions.find(TenantId(wanted.tenant["id"]), sso_secret)
    return session is not None and not _is_of_session(wanted.hint, session)


def _is_of_session(hint: Document | None, session: SsoSession) -> bool:
    """Whether an ID token was issued in this session; one without `sid`, whether it is of the session's user."""
    return (
        hint is not None
        and hint["sub"] == session.user_id
        and hint.get("sid", session.session_id) == session.session_id
    )


async def _end_session(services: Services, call: Call, tenant_id: TenantId, secret: str) -> SsoSession | None:
    """End the session where no webhook vetoes it; they know it as a refresh token of no application."""
    if await services.bus.has_subscribers(tenant_id, sso_session_records.REVOCATION_EVENT):
        seen = await services.sso_sessions.find(tenant_id, secret)
        user = None if seen is None else await services.users.find(tenant_id, seen.user_id)
        if seen is not None and user is not None:
            try:
                record = sso_session_records.from_session(tenant_id, seen)
                await services.bus.request_approval(call, [sso_session_records.revocation(record, user)])
            except WebhookTransactionFailed as error:
                raise AccessDenied("unknown", "A webhook refused the end of this session.") from error
    return await sso_sessions.end(services, call, tenant_id, secret)


async def _read_request(services: Services, given: Mapping[str, str], hints: TenantHints) -> _LogoutRequest:
    """The tenant and client of a request. An ID token proves itself by our signature, expired or not."""
    hinted = claims = None
    if "id_token_hint" in given:
        hint = await services.tokens.verify_id_token_hint(given["id_token_hint"], clients.client_finder(services))
        if isinstance(hint, Rejection):
            raise _invalid_hint("The id_token_hint is no ID token of this service.")
        hinted, claims = hint.application["id"], hint.claims
    client_id = given.get("client_id", hinted)
    if hinted is not None and parse_id(client_id) != hinted:
        raise _invalid_hint("The id_token_hint was issued to another client.")
    if client_id is not None:
        client = await clients.get_client(services, hints, client_id)
        return _LogoutRequest(client.tenant, client, claims)
    tenant = await clients.find_named_tenant(services, hints) or await clients.get_default_tenant(services)
    return _LogoutRequest(tenant, None)


def _target(wanted: _LogoutRequest, given: Mapping[str, str]) -> str:
    """Where the browser goes: the first of post_logout_redirect_uri, the application's and the tenant's logoutURL."""
    uri, client = given.get("post_logout_redirect_uri"), wanted.client
    if uri is not None:
        reason = "invalid_post_logout_redirect_uri"
        if client is None:
            missing = "The request has neither an id_token_hint nor a client_id, one of which is required with"
            raise InvalidRequest(reason, f"{missing} post_logout_redirect_uri.")
        if not security_profiles.is_authorized(uri, client.application):
            raise InvalidRequest(reason, f"Invalid post_logout_redirect_uri {uri}")
        return redirect_uris.with_query(uri, {"state": given["state"]} if "state" in given else {})
    own = None if client is None else client.oauth.get("logoutURL")
    return str(own or wanted.tenant.get("logoutURL") or HOME)


async def _frame_urls(
    services: Services, wanted: _LogoutRequest, session: SsoSession | None, target: str
) -> tuple[str, ...]:
    """The logout URLs of the applications that are told, with the session's issuer and id where one ended."""
    tenant = wanted.tenant
    behavior = "AllApplications" if wanted.client is None else wanted.client.oauth["logoutBehavior"]
    if behavior == "RedirectOnly":
        return ()
    applications = await services.applications.list_cached(TenantId(tenant["id"]), "all", {})
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
