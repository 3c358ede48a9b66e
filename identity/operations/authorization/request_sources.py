"""Sources of an authorization request: its own parameters, a pushed request (RFC 9126) or a request object (RFC 9101).

    request         a request object signed by the client; other parameters are ignored (see request_objects.py)
    request_uri     a pushed request; usable until its response, for reloads of the page (FAPI 2.0 section 5.3.2.2)
    opened request  a copy of one of these for the login pages of one browser, under its own request_uri, for the
                    lifetime of login intents; the response deletes it

Of all opened requests of one pushed request a single one gets a successful response: `ONE_USE` identifies the pushed
request. `resolve` marks parameters with `PUSHED`, `ONE_USE` and `SIGNED`; no schema has these names, so that no request
can contain them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import NONE, ONE_USE, PUSHED, SIGNED, AuthorizationRequest
from identity.domain.objects.external_identifiers import Lifetimes
from identity.errors import InvalidRequestUri
from identity.ids import fingerprint, new_secret
from identity.operations.authorization import request_objects
from identity.operations.authorization.request_objects import PARAMETERS, ROUTING
from identity.operations.clients import clients
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.limits import anonymous_request_limits
from identity.services import Services
from identity.store.rate_limits import Limit

PREFIX: Final = "urn:ietf:params:oauth:request_uri:"
"""The prefix of the request_uri of a pushed request (RFC 9126 section 2.2)."""

_OPENED: Final = f"{PREFIX}opened."
_PURPOSE: Final = "pushed-request"
_REMEMBERED_SECONDS: Final = 86_400
"""The time that the use of a pushed request is remembered, which exceeds that of any login with it."""
_MAXIMUM_OPENED: Final = 20
"""The maximum number of opened requests per pushed request, each stored for one browser."""
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")


async def resolve(
    services: Services,
    call: Call,
    hints: TenantHints,
    given: Mapping[str, Any],
    *,
    browser: str = "",
    consumes: bool = True,
) -> Document:
    """Return the parameters of a request: the pushed or signed ones that it refers to, else its own.

    A request that names a pushed one keeps its client_id, its tenantId and what is no authorization parameter.
    `browser` is the secret of the browser; without `consumes` nothing is changed. Raises InvalidRequestUri and what
    `clients.get_client` raises, which are shown on an error page because no redirect URI is verified yet; and
    InvalidRequestObject.
    """
    uri = str(given.get("request_uri", ""))
    if not uri.startswith(PREFIX):
        if "request" not in given:
            return dict(given)
        client = await clients.get_client(services, hints, given.get("client_id"))
        return await request_objects.unpack(services, call, client, given)
    client = await clients.get_client(services, hints, given.get("client_id"))
    found = await _find_opened(services, client, uri, browser) if uri.startswith(_OPENED) else None
    if found is None:
        found = await _get_pushed(services, client, uri, consumes=consumes)
    declared = services.schemas[PARAMETERS].schema["properties"]
    kept = {name: value for name, value in given.items() if name in ROUTING or name not in declared}
    return {**kept, **found}


def must_reopen(given: Mapping[str, Any]) -> bool:
    """Whether a page has to reopen the request: its request_uri is used, or its request object would expire."""
    return given.get(PUSHED) == "" or (SIGNED in given and PUSHED not in given)


async def reopen(
    services: Services, client: Client, given: Mapping[str, Any], browser: str, address: str
) -> dict[str, str]:
    """Store a pushed or signed request for the pages of this browser, and return the parameters that name it.

    Raises InvalidRequest if the browser's IP `address` sent too many signed requests, and InvalidRequestUri if a pushed
    request was opened too often.
    """
    declared = services.schemas[PARAMETERS].schema["properties"]
    request = {name: given[name] for name in declared if name in given and name not in ROUTING}
    if ONE_USE in given:
        request[ONE_USE] = given[ONE_USE]
        limit = Limit(_PURPOSE, f"{client.client_id} {given[ONE_USE]}", _MAXIMUM_OPENED, _REMEMBERED_SECONDS)
        if await services.limits.rate_limits.consume(client.tenant_id, [limit]) is not None:
            raise _unknown()
    if SIGNED in given:
        request[SIGNED] = ""
    if PUSHED not in given:
        await anonymous_request_limits.count_request(services, client.tenant_id, address)
    uri = _OPENED + new_secret()
    ttl_seconds = Lifetimes.of(client.tenant).login_intent_seconds
    name = _name(uri, browser)
    await services.tokens.pushed_requests.save(client.tenant_id, client.client_id, name, request, ttl_seconds)
    return {**{name: given[name] for name in ROUTING if name in given}, "request_uri": uri}


def form_parameters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters that our forms repeat: those that name a pushed request, or the signed request object.

    Neither can be modified in the form.
    """
    if PUSHED not in given and SIGNED not in given:
        return given
    found = {name: given[name] for name in (*ROUTING, "request_uri") if name in given}
    return found if "request_uri" in found or not given.get(SIGNED) else {**found, "request": given[SIGNED]}


async def consume(services: Services, client: Client, request: AuthorizationRequest) -> None:
    """Consume the pushed or opened request of a successful response. Raises InvalidRequestUri if it was consumed."""
    if request.pushed and not await services.tokens.pushed_requests.consume(
        client.tenant_id, client.client_id, request.pushed
    ):
        raise _unknown()
    if not request.one_use:
        return
    named = (client.tenant_id, _PURPOSE, client.client_id, request.one_use)
    if not await services.tokens.one_time_ids.mark_used(*named, _REMEMBERED_SECONDS):
        raise _unknown()
    await services.tokens.pushed_requests.delete(client.tenant_id, client.client_id, request.one_use)


async def _get_pushed(services: Services, client: Client, uri: str, *, consumes: bool) -> Document:
    """Return a pushed request; with `prompt=none`, which shows no page, it is consumed. Raises InvalidRequestUri."""
    secret = uri.removeprefix(PREFIX)
    named, found = (client.tenant_id, client.client_id, secret), None
    if _SECRET.fullmatch(secret):
        found = await services.tokens.pushed_requests.find(*named)
    if consumes and found is not None and NONE in found.get("prompt", "").split(" "):
        found = await services.tokens.pushed_requests.consume(*named)
    if found is None:
        raise _unknown()
    return {**found, PUSHED: "", ONE_USE: fingerprint(secret)}


async def _find_opened(services: Services, client: Client, uri: str, browser: str) -> Document | None:
    name = _name(uri, browser)
    found = await services.tokens.pushed_requests.find(client.tenant_id, client.client_id, name)
    return None if found is None else {**found, "request_uri": uri, PUSHED: name}


def _name(uri: str, browser: str) -> str:
    return fingerprint(f"{uri} {browser}")


def _unknown() -> InvalidRequestUri:
    return InvalidRequestUri(None, "The request_uri is unknown, expired, used already, or of another client.")
