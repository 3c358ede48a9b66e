"""The recent refused requests of a client, for its developers: at most 25, for a day, without secrets.

Only parameters without personal data and credentials are stored; the others are named.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.errors import OAuth2Error, ServiceError
from identity.ids import TenantId
from identity.operations.clients import client_authentication, client_ids
from identity.services import Services

_STORED: Final = frozenset(
    {
        "client_assertion_type", "client_id", "code_challenge", "code_challenge_method", "grant_type", "idp_hint",
        "locale", "max_age", "prompt", "redirect_uri", "resource", "response_mode", "response_type", "scope",
        "tenantId", "ui_locales",
    }
)  # fmt: skip
_ROUTINE: Final = frozenset({"authorization_pending", "interaction_required", "login_required", "slow_down"})
"""Errors of requests that work as intended, such as polling for a device code."""
_LONGEST: Final = 300


async def record(
    services: Services, call: Call, path: str, authorization: str, given: Mapping[str, str], error: OAuth2Error
) -> None:
    """Record a refused request of an existing application, in the background. Unknown clients are not recorded."""
    client_id = given.get("client_id", "")
    with contextlib.suppress(ServiceError):
        client_id = client_authentication.read_credentials(authorization, dict(given)).client_id
    # The endpoint has looked the client up already.
    application = client_ids.peek_application(services, client_id)
    if application is None or error.error in _ROUTINE:
        return
    entry: Document = {
        "instant": call.now,
        "path": path,
        "error": error.error,
        "reason": error.reason or "",
        "description": error.description[:_LONGEST],
        "ipAddress": call.origin.ip_address,
        "parameters": {name: given[name][:_LONGEST] for name in sorted(given) if name in _STORED},
        "otherParameters": sorted(name[:_LONGEST] for name in given if name not in _STORED)[:30],
        "hasAuthorizationHeader": bool(authorization),
    }
    log = services.logs.refused_requests.add(TenantId(application["tenantId"]), application["id"], entry)
    await services.runtime.background_work.begin("refused request", log)
