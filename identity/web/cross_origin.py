"""Requests that a browser makes for a page of another site: who may make them, and what the browser is told."""

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
"""For what is public anyway: scripts of other origins discover and verify, too."""

_OPEN_PREFLIGHT = {**OPEN_HEADERS, "Access-Control-Allow-Methods": "GET", "Access-Control-Max-Age": "1800"}


class CrossOriginAccess(enum.Enum):
    """What pages of other sites may do with a route.

    CONFIGURED: what the system configuration says. OPEN: anybody may read it. BY_PAGE: it is a page, which answers
    forms and links of other sites by rules of its own, and which no script of theirs may read. BY_APPLICATION: scripts
    of the origins of an application, which the operation knows and checks.
    """

    CONFIGURED = "configured"
    OPEN = "open"
    BY_PAGE = "by page"
    BY_APPLICATION = "by application"


SELF_JUDGED = frozenset({CrossOriginAccess.BY_PAGE, CrossOriginAccess.BY_APPLICATION})
"""Where the route itself judges cross-origin requests."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a request: `status` None lets it go on, another ends it here, for the `reason` in the log."""

    headers: Mapping[str, str]
    status: int | None = None
    reason: str = ""


_GO_ON = Verdict({})


async def judge(
    services: Services,
    access: CrossOriginAccess,
    request: HTTPServerRequest,
    base_url: str,
    origin: Callable[[], Origin],
) -> Verdict:
    """The verdict on a request with an Origin header. `origin` tells where it came from, if that is of interest."""
    asked = _asked(request)
    if access is CrossOriginAccess.OPEN:
        return Verdict(_OPEN_PREFLIGHT, 200) if asked.is_preflight else _GO_ON
    if cors.is_same_host(asked.origin, base_url, request.host):
        return _GO_ON
    if not services.system.is_fresh:
        await services.system.refresh()
    rules = services.system.settings.cors
    if not rules.enabled:
        return _GO_ON
    return await _judged(services, rules, asked, request.path, origin)


async def _judged(
    services: Services, rules: Cors, asked: CrossOrigin, path: str, origin: Callable[[], Origin]
) -> Verdict:
    outcome = rules.judge(asked)
    if not isinstance(outcome, Refused):
        return Verdict(outcome, 200 if asked.is_preflight else None)
    if rules.debug:
        what = "A preflight for" if asked.is_preflight else "The request"
        message = f"{what} {asked.method[:20]} {path[:300]} was refused by the CORS configuration: {outcome.reason}."
        call = Call(None, AnonymousCaller(), services.clock.now(), origin())
        await event_logs.debug(services, call, services.default_tenant_id, "cors", message)
    return Verdict({"Vary": "Origin"}, Forbidden.status, f"CORS configuration: {outcome.reason}")


def _asked(request: HTTPServerRequest) -> CrossOrigin:
    """What the browser says; an origin that cannot be one stays as it is, and matches nothing."""
    headers = request.headers
    text = headers["Origin"]
    origin = "null" if text == cors.ANY else cors.canonical_origin(text) or text
    wanted = headers.get("Access-Control-Request-Method")
    if request.method == "OPTIONS" and wanted is not None:
        names = headers.get("Access-Control-Request-Headers", "").split(",")
        return CrossOrigin(origin, wanted.strip(), tuple(name.strip() for name in names if name.strip()), True)
    return CrossOrigin(origin, request.method or "")
