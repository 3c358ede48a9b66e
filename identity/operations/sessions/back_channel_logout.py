"""Back-channel logout: the applications that joined a session hear of its end, server to server.

(OpenID Connect Back-Channel Logout 1.0.) Whoever ends a session writes a notice for each of them first, so that nothing
is lost whatever is killed when; a worker signs and sends. No logout waits for a receiver.
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
from identity.store.logout_notices import LogoutNotice
from identity.store.sso_sessions import SsoSession

CONNECT_TIMEOUT_MS = 3000
READ_TIMEOUT_MS = 5000
MAX_CONCURRENCY = 32
"""Requests of one process at a time."""

_URL = "backChannelLogoutURL"
_RECEIVERS: Final = {"active": True, f"oauthConfiguration.{_URL}": {"$exists": True}}
_KEPT_ANSWER_BYTES = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class LogoutFailure:
    """A receiver that has not taken a logout token; `reason` is for the event log."""

    url: str
    reason: str


async def find_receivers(services: Services, tenant_id: TenantId) -> frozenset[str]:
    """The active applications of a tenant that want to hear of logouts; from memory."""
    applications = await services.applications.list_cached(tenant_id, "logout receivers", _RECEIVERS)
    return frozenset(one["id"] for one in applications)


def new_notices(
    call: Call, tenant_id: TenantId, sessions: Iterable[SsoSession], wanted: Collection[str]
) -> tuple[LogoutNotice, ...]:
    """What those of the `wanted` applications that joined the sessions are to be told."""
    trace, via = call.origin.trace, call.via
    return tuple(
        LogoutNotice(tenant_id, ApplicationId(client_id), session.user_id, session.session_id, trace, via)
        for session in sessions
        for client_id in sorted(session.client_ids)
        if client_id in wanted
    )


async def send(services: Services, notice: LogoutNotice) -> LogoutFailure | None:
    """Tell an application; None when it was told, or nobody is there any more who wants to be.

    Every attempt is a token of its own, with an instant and a `jti` of its own: one that was taken, but whose answer
    was lost, would otherwise look replayed.
    """
    application = await services.applications.find_cached(notice.tenant_id, notice.application_id)
    tenant = await services.tenants.find_cached(None, notice.tenant_id)
    if tenant is None or application is None or not application["active"]:
        return None
    oauth = application["oauthConfiguration"]
    url = oauth.get(_URL)
    if url is None:
        return None
    session_id = notice.session_id if oauth["backChannelLogoutSessionRequired"] else None
    try:
        now = services.clock.now()
        token = await services.tokens.logout_token(tenant, application, notice.user_id, session_id, now)
        response = await services.http.request(_request(services, notice, url, token))
    except (LookupError, ValueError) as error:
        return LogoutFailure(url, f"the token cannot be signed ({type(error).__name__})")
    except OutboundError as error:
        return LogoutFailure(url, f"{error.kind}: {error.message}")
    if 200 <= response.status < 300:
        return None
    return LogoutFailure(url, f"status {response.status}")


def url_problems(services: Services, application: Document) -> list[FieldError]:
    """What is wrong with where an application wants to hear of logouts."""
    url = application["oauthConfiguration"].get(_URL)
    if url is None:
        return []
    allowed = services.config.webhooks.allowed_networks
    reason = check_url(url, allowed)
    if reason is None and not _is_protected(url) and check_url(url, ()) is None:
        reason = "it must be an https URL, except in the networks of webhooks.allowed_networks"
    path = f"application.oauthConfiguration.{_URL}"
    return [] if reason is None else [FieldError.of("invalid", path, f"The [{path}] cannot be used: {reason}.")]


def _is_protected(url: str) -> bool:
    return urllib.parse.urlsplit(url).scheme == "https"


def _request(services: Services, notice: LogoutNotice, url: str, token: str) -> Request:
    return Request(
        method="POST",
        url=url,
        headers={
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
            **delivery_loop_detection.forwarded_headers(notice.trace, notice.via, services.service_id),
        },
        body=urllib.parse.urlencode({"logout_token": token}).encode(),
        connect_timeout_ms=CONNECT_TIMEOUT_MS,
        read_timeout_ms=READ_TIMEOUT_MS,
        max_response_bytes=_KEPT_ANSWER_BYTES,
    )
