"""Back-channel logout (OpenID Connect Back-Channel Logout 1.0): notify the applications of an ended session.

Ending a session first stores a notice per application, so that no crash loses one. A worker signs and sends the logout
tokens, and no logout waits for an application.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Collection, Iterable
from typing import Final

from identity.call import Call, Document
from identity.domain.webhooks import delivery_loop_detection
from identity.errors import FieldError
from identity.ids import ApplicationId, TenantId
from identity.outbound.addresses import check_url
from identity.outbound.http import OutboundError, Request
from identity.services import Services
from identity.store.browser_sessions import SsoSession
from identity.store.work_queues import LogoutNotice

CONNECT_TIMEOUT_MS = 3000
READ_TIMEOUT_MS = 5000
MAX_CONCURRENCY = 32
"""The maximum number of concurrent requests of one process."""

_URL = "backChannelLogoutURL"
_RECEIVERS: Final = {"active": True, f"oauthConfiguration.{_URL}": {"$exists": True}}
_MAX_RESPONSE_BYTES = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class LogoutFailure:
    """An application that did not accept a logout token; `reason` is for the event log."""

    url: str
    reason: str


async def find_receivers(services: Services, tenant_id: TenantId) -> frozenset[str]:
    """Return the active applications of a tenant that have a back-channel logout URL, from the cache."""
    applications = await services.configuration.applications.list_cached(tenant_id, "logout receivers", _RECEIVERS)
    return frozenset(one["id"] for one in applications)


def new_notices(
    call: Call, tenant_id: TenantId, sessions: Iterable[SsoSession], receivers: Collection[str]
) -> tuple[LogoutNotice, ...]:
    """Return a notice per session and application that joined it, for the applications in `receivers`."""
    trace, via = call.origin.trace, call.via
    return tuple(
        LogoutNotice(tenant_id, ApplicationId(client_id), session.user_id, session.session_id, trace, via)
        for session in sessions
        for client_id in sorted(session.client_ids)
        if client_id in receivers
    )


async def send(services: Services, notice: LogoutNotice) -> LogoutFailure | None:
    """Send a logout token to an application; None if it was accepted, or the application no longer has a URL.

    Every attempt has a token with its own `iat` and `jti`: otherwise an application that accepted one whose response
    was lost would see a replay.
    """
    application = await services.configuration.applications.find_cached(notice.tenant_id, notice.application_id)
    tenant = await services.configuration.tenants.find_cached(None, notice.tenant_id)
    if tenant is None or application is None or not application["active"]:
        return None
    oauth = application["oauthConfiguration"]
    url = oauth.get(_URL)
    if url is None:
        return None
    session_id = notice.session_id if oauth["backChannelLogoutSessionRequired"] else None
    try:
        now = services.clock.now()
        token = await services.tokens.issuer.logout_token(tenant, application, notice.user_id, session_id, now)
        response = await services.outbound.http.request(_request(services, notice, url, token))
    except (LookupError, ValueError) as error:
        return LogoutFailure(url, f"the token cannot be signed ({type(error).__name__})")
    except OutboundError as error:
        return LogoutFailure(url, f"{error.kind}: {error.message}")
    if 200 <= response.status < 300:
        return None
    return LogoutFailure(url, f"status {response.status}")


def url_problems(services: Services, application: Document) -> list[FieldError]:
    """Return the errors of an application's back-channel logout URL."""
    url = application["oauthConfiguration"].get(_URL)
    if url is None:
        return []
    allowed = services.config.webhooks.allowed_networks
    reason = check_url(url, allowed)
    if reason is None and not _is_protected(url) and check_url(url, ()) is None:
        reason = "it must be an https URL, except in the networks of webhooks.allowed_networks"
    path = f"application.oauthConfiguration.{_URL}"
    return [] if reason is None else [FieldError.invalid(path, f"cannot be used: {reason}")]


def _is_protected(url: str) -> bool:
    return urllib.parse.urlsplit(url).scheme == "https"


def _request(services: Services, notice: LogoutNotice, url: str, token: str) -> Request:
    return Request(
        method="POST",
        url=url,
        headers={
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
            **delivery_loop_detection.forwarded_headers(notice.trace, notice.via, services.outbound.service_id),
        },
        body=urllib.parse.urlencode({"logout_token": token}).encode(),
        connect_timeout_ms=CONNECT_TIMEOUT_MS,
        read_timeout_ms=READ_TIMEOUT_MS,
        max_response_bytes=_MAX_RESPONSE_BYTES,
    )
