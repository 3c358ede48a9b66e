"""Where an authorization request comes from: its own parameters, those that the client pushed (RFC 9126), or signed.

request            is an object that the client signed, and nothing beside it counts (see `request_objects`)
request_uri        names a pushed request; it can be shown again until a response is given (FAPI 2.0 section 5.3.2.2)
opened request     one of these that a login page goes on with: kept for the tenant's login intent time under a
                   request_uri of its own, which only the browser that opened it can use, and deleted by the response

Of all opened requests of one pushed request a single one gets a successful response: `ONE_USE` names what they share.
`PUSHED`, `ONE_USE` and `SIGNED` mark such parameters in what `resolve` returns; no schema has them, so that no request
can contain them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import NONE, ONE_USE, PUSHED, SIGNED, AuthorizationRequest
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
"""What the request_uri of a pushed request begins with (RFC 9126 section 2.2)."""

_OPENED: Final = f"{PREFIX}opened."
_PURPOSE: Final = "pushed-request"
_REMEMBERED_SECONDS: Final = 86_400
"""How long a pushed request counts as used: longer than a login that began with it may take."""
_OPENINGS: Final = 20
"""How often a pushed request can be shown: each time it is kept for the pages of one browser."""
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")


async def resolve(
    services: Services,
    call: Call,
    hints: TenantHints,
    given: Mapping[str, Any],
    *,
    browser: str = "",
) -> Document:
    """Return the parameters of a request: the pushed or signed ones that it refers to, else its own.

    A request that names a pushed one keeps its client_id, its tenantId and what is no authorization parameter.
    `browser` is the secret of the browser. Raises InvalidRequestUri and what `clients.get_client` raises, which are
    shown on an error page because no redirect URI is verified yet; and InvalidRequestObject.
    """
    uri = str(given.get("request_uri", ""))
    if not uri.startswith(PREFIX):
        if "request" not in given:
            return dict(given)
        client = await clients.get_client(services, hints, given.get("client_id"))
        return await request_objects.unpack(services, call, client, given)
    client = await clients.get_client(services, hints, given.get("client_id"))
    found = await _opened(services, client, uri, browser) if uri.startswith(_OPENED) else None
    if found is None:
        found = await _pushed(services, client, uri)
    declared = services.schemas[PARAMETERS].schema["properties"]
    own = {name: value for name, value in given.items() if name in ROUTING or name not in declared}
    return {**own, **found}


def must_reopen(given: Mapping[str, Any]) -> bool:
    """Whether a page needs a name to go on with: the request_uri is used up, or a signed request would run out."""
    return given.get(PUSHED) == "" or (SIGNED in given and PUSHED not in given)


async def reopen(
    services: Services, client: Client, given: Mapping[str, Any], browser: str, address: str
) -> dict[str, str]:
    """Keep a pushed or signed request for the pages of this browser: the parameters by which it is found again.

    Raises InvalidRequest where the browser's `address` sent too many signed ones, and InvalidRequestUri where a pushed
    one was shown too often.
    """
    declared = services.schemas[PARAMETERS].schema["properties"]
    request = {name: given[name] for name in declared if name in given and name not in ROUTING}
    if ONE_USE in given:
        request[ONE_USE] = given[ONE_USE]
        limit = Limit(_PURPOSE, f"{client.client_id} {given[ONE_USE]}", _OPENINGS, _REMEMBERED_SECONDS)
        if await services.rate_limits.consume(client.tenant_id, [limit]) is not None:
            raise _unknown()
    if SIGNED in given:
        request[SIGNED] = ""
    if PUSHED not in given:
        await anonymous_request_limits.count_request(services, client.tenant_id, address)
    uri = _OPENED + new_secret()
    ttl_seconds = client.tenant["externalIdentifierConfiguration"]["loginIntentTimeToLiveInSeconds"]
    name = _name(uri, browser)
    await services.pushed_requests.save(client.tenant_id, client.client_id, name, request, ttl_seconds)
    return {**{name: given[name] for name in ROUTING if name in given}, "request_uri": uri}


def form_parameters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a form of ours has to carry of a request: of a pushed one its name, of a signed one the whole object.

    So nobody can change it.
    """
    if PUSHED not in given and SIGNED not in given:
        return given
    found = {name: given[name] for name in (*ROUTING, "request_uri") if name in given}
    return found if "request_uri" in found or not given.get(SIGNED) else {**found, "request": given[SIGNED]}


async def consume(services: Services, client: Client, request: AuthorizationRequest) -> None:
    """Use up the pushed or opened request that a successful response is about to be given to.

    Raises InvalidRequestUri when it has been used up before.
    """
    if request.pushed and not await services.pushed_requests.consume(
        client.tenant_id, client.client_id, request.pushed
    ):
        raise _unknown()
    if not request.one_use:
        return
    named = (client.tenant_id, _PURPOSE, client.client_id, request.one_use)
    if not await services.one_time_ids.mark_used(*named, _REMEMBERED_SECONDS):
        raise _unknown()
    await services.pushed_requests.delete(client.tenant_id, client.client_id, request.one_use)


async def _pushed(services: Services, client: Client, uri: str) -> Document:
    """A pushed request. One with `prompt=none`, which never shows a page, is used up by this."""
    secret = uri.removeprefix(PREFIX)
    named, found = (client.tenant_id, client.client_id, secret), None
    if _SECRET.fullmatch(secret):
        found = await services.pushed_requests.find(*named)
    if found is not None and NONE in found.get("prompt", "").split(" "):
        found = await services.pushed_requests.consume(*named)
    if found is None:
        raise _unknown()
    return {**found, PUSHED: "", ONE_USE: fingerprint(secret)}


async def _opened(services: Services, client: Client, uri: str, browser: str) -> Document | None:
    name = _name(uri, browser)
    found = await services.pushed_requests.find(client.tenant_id, client.client_id, name)
    return None if found is None else {**found, "request_uri": uri, PUSHED: name}


def _name(uri: str, browser: str) -> str:
    return fingerprint(f"{uri} {browser}")


def _unknown() -> InvalidRequestUri:
    return InvalidRequestUri(None, "The request_uri is unknown, expired, used already, or of another client.")
