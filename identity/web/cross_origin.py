"""Cross-origin requests of browsers: which are allowed, and the CORS headers of their responses."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping

from tornado.httputil import HTTPServerRequest

from identity.call import AnonymousCaller, Call, Origin
from identity.domain.objects import cors
from identity.domain.objects.cors import Cors, CrossOrigin, Refused
from identity.errors import Forbidden
from identity.operations.objects import event_logs
from identity.services import Services

OPEN_HEADERS: Mapping[str, str] = {"Access-Control-Allow-Origin": cors.ANY}
"""For public resources, which scripts of any origin may read."""

_OPEN_PREFLIGHT = {**OPEN_HEADERS, "Access-Control-Allow-Methods": "GET", "Access-Control-Max-Age": "1800"}


class CrossOriginAccess(enum.Enum):
    """The access of other origins to a route.

    CONFIGURED: as the system configuration allows. OPEN: scripts of any origin may read it. BY_PAGE: a page that checks
    forms and links of other sites itself, and that their scripts may not read. BY_APPLICATION: scripts of the origins
    of an application, which the operation checks.
    """

    CONFIGURED = "configured"
    OPEN = "open"
    BY_PAGE = "by page"
    BY_APPLICATION = "by application"


CHECKED_BY_ROUTE = frozenset({CrossOriginAccess.BY_PAGE, CrossOriginAccess.BY_APPLICATION})
"""The routes that check cross-origin requests themselves."""


@dataclasses.dataclass(frozen=True, slots=True)
class CorsDecision:
    """Whether a request continues (`status` None) or ends with a status, for the `reason` in the log."""

    headers: Mapping[str, str]
    status: int | None = None
    reason: str = ""


_CONTINUE = CorsDecision({})


async def decide(
    services: Services,
    access: CrossOriginAccess,
    request: HTTPServerRequest,
    base_url: str,
    origin: Callable[[], Origin],
) -> CorsDecision:
    """Decide about a request with an Origin header; `origin` returns its origin for the event log."""
    request_origin = _read(request)
    if access is CrossOriginAccess.OPEN:
        return CorsDecision(_OPEN_PREFLIGHT, 200) if request_origin.is_preflight else _CONTINUE
    if cors.is_same_host(request_origin.origin, base_url, request.host):
        return _CONTINUE
    if not services.configuration.system.is_fresh:
        await services.configuration.system.refresh()
    rules = services.configuration.system.settings.cors
    if not rules.enabled:
        return _CONTINUE
    return await _decide_by_rules(services, rules, request_origin, request.path, origin)


async def _decide_by_rules(
    services: Services, rules: Cors, request_origin: CrossOrigin, path: str, origin: Callable[[], Origin]
) -> CorsDecision:
    outcome = rules.evaluate(request_origin)
    if not isinstance(outcome, Refused):
        return CorsDecision(outcome, 200 if request_origin.is_preflight else None)
    if rules.debug:
        what = "A preflight for" if request_origin.is_preflight else "The request"
        message = (
            f"{what} {request_origin.method[:20]} {path[:300]} was refused by the CORS configuration: {outcome.reason}."
        )
        call = Call(None, AnonymousCaller(), services.clock.now(), origin())
        await event_logs.debug(services, call, services.runtime.default_tenant_id, "cors", message)
    return CorsDecision({"Vary": "Origin"}, Forbidden.status, f"CORS configuration: {outcome.reason}")


def _read(request: HTTPServerRequest) -> CrossOrigin:
    """Return the origin and method of a request; a malformed origin is kept unchanged and matches nothing."""
    headers = request.headers
    text = headers["Origin"]
    origin = "null" if text == cors.ANY else cors.canonical_origin(text) or text
    requested_method = headers.get("Access-Control-Request-Method")
    if request.method == "OPTIONS" and requested_method is not None:
        names = headers.get("Access-Control-Request-Headers", "").split(",")
        return CrossOrigin(
            origin, requested_method.strip(), tuple(name.strip() for name in names if name.strip()), True
        )
    return CrossOrigin(origin, request.method or "")
