"""Authenticate the caller of a request by its Authorization header, and resolve the tenant of the call."""

from __future__ import annotations

import base64

import structlog

from identity import permissions
from identity.call import AnonymousCaller, ApiKeyCaller, Caller, Document, Origin
from identity.domain.objects import api_keys as api_key_rules
from identity.domain.objects import ip_access, ip_addresses
from identity.errors import Invalid, Unauthorized, Unavailable
from identity.ids import TenantId, parse_id
from identity.instants import Instant
from identity.services import Services
from identity.store import outages
from identity.store.outages import OUTAGES

_log = structlog.get_logger(__name__)

DELETED = "PendingDelete"

_OTHER_SCHEMES = frozenset({"basic", "bearer", "dpop", "jwt"})
_BASIC_ENDPOINTS = frozenset({"/api/prometheus/metrics", "/api/status"})


async def authenticate(
    services: Services,
    authorization: str,
    origin: Origin,
    now: Instant,
    endpoint: str,
    method: str,
    *,
    key_manager: bool,
    optional: bool,
) -> Caller:
    """Return the caller of a request.

    With `optional` a request without credentials has an anonymous caller; an invalid key is still refused.

    Raises:
        Unauthorized: the API key is missing, unknown, expired, or not valid for this address or call.
        Unavailable: too many different unknown keys came from the network, and the key is unknown, or is guessable and
            was not used from there before. Keys with enough entropy are exempt, because they cannot be guessed.
    """
    text = _presented_key(authorization, endpoint)
    if not text:
        if optional:
            return AnonymousCaller()
        raise Unauthorized(log_detail="the request has no API key")
    api_key = await services.configuration.api_keys.find_by_key(text)
    if api_key is None:
        await _count_unknown(services, text, origin)
        raise Unauthorized(log_detail="no API key has this value")
    if api_key_rules.is_guessable(text):
        wait_seconds = await services.limits.failed_api_keys.wait_seconds(_network(origin), api_key["id"])
        if wait_seconds is not None:
            raise _too_many(wait_seconds)
    _require_live(api_key, now)
    require_permission(api_key, endpoint, method, key_manager=key_manager)
    await _require_address(services, api_key, origin)
    return ApiKeyCaller(api_key)


async def find_caller(
    services: Services, authorization: str, origin: Origin, now: Instant, endpoint: str, method: str, header: str | None
) -> Caller:
    """Return the caller of a public route: an API key that is valid for the call, or else an anonymous caller.

    The route requires no key, so that clients may send anything in the Authorization header.
    """
    if authorization.strip().partition(" ")[0].lower() in _OTHER_SCHEMES:
        return AnonymousCaller()
    try:
        found = await authenticate(
            services, authorization, origin, now, endpoint, method, key_manager=False, optional=True
        )
        await find_named_tenant_id(services, found, header)
    except (Unauthorized, Unavailable, Invalid):
        return AnonymousCaller()
    return found


async def is_live_key(services: Services, authorization: str, now: Instant) -> bool:
    """Return whether a request has an API key that has not expired; its permissions and address are not checked."""
    text = authorization.strip()
    api_key = await services.configuration.api_keys.find_by_key(text) if text else None
    if api_key is None:
        return False
    try:
        _require_live(api_key, now)
    except Unauthorized:
        return False
    return True


async def may_call(services: Services, authorization: str, now: Instant, endpoint: str, method: str) -> bool:
    """Return whether the API key of a request may make the call; its address is not checked."""
    text = authorization.strip()
    api_key = await services.configuration.api_keys.find_by_key(text) if text else None
    if api_key is None:
        return False
    try:
        _require_live(api_key, now)
        require_permission(api_key, endpoint, method, key_manager=False)
    except Unauthorized:
        return False
    return True


async def find_tenant_id(services: Services, caller: Caller, header: str | None) -> TenantId | None:
    """Return the tenant that a call names, or else the only one there is. Raises as `find_named_tenant_id`."""
    named = await find_named_tenant_id(services, caller, header)
    if named is not None:
        return named
    where = {"state": {"$ne": DELETED}}
    first = await services.configuration.tenants.list_cached(None, "first two", where, ("_id",), limit=2)
    return TenantId(first[0]["id"]) if len(first) == 1 else None


async def find_named_tenant_id(services: Services, caller: Caller, header: str | None) -> TenantId | None:
    """Return the tenant of the API key, or else that of the header.

    Raises Unauthorized if the header differs from the tenant of the key, and Invalid if it names no existing tenant.
    A tenant that is being deleted counts as missing.
    """
    named = parse_id(header.strip()) if header else None
    if caller.tenant_id is not None:
        if (header and named != caller.tenant_id) or not await _exists(services, caller.tenant_id):
            raise Unauthorized(
                log_detail="the tenant header differs from the tenant of the API key, or that tenant is being deleted"
            )
        return caller.tenant_id
    if header:
        if named is None or not await _exists(services, named):
            raise Invalid.whole("[InvalidTenantId]", "The X-FusionAuth-TenantId header must name an existing tenant.")
        return TenantId(named)
    return None


async def _exists(services: Services, tenant_id: str) -> bool:
    found = await services.configuration.tenants.find_cached(None, tenant_id)
    return found is not None and found["state"] != DELETED


def _presented_key(authorization: str, endpoint: str) -> str:
    text = authorization.strip()
    if endpoint in _BASIC_ENDPOINTS and text[:6].lower() == "basic ":
        try:
            name, _, key = base64.b64decode(text[6:], validate=True).decode().partition(":")
        except ValueError:
            return ""
        return key if name == "apikey" else ""
    return text


async def _count_unknown(services: Services, text: str, origin: Origin) -> None:
    """Count an unknown key of a network, unless Redis is unavailable. Raises Unavailable after too many."""
    try:
        wait_seconds = await services.limits.failed_api_keys.add(
            _network(origin), services.configuration.api_keys.fingerprint(text)
        )
    except OUTAGES as error:
        _log.warning("unknown API key not counted", request_id=origin.request_id, outage=outages.reason(error))
        return
    if wait_seconds is not None:
        _log.warning("too many unknown API keys", request_id=origin.request_id, address=origin.ip_address)
        raise _too_many(wait_seconds)


def _network(origin: Origin) -> str:
    return ip_addresses.network(origin.ip_address)


def _too_many(wait_seconds: int) -> Unavailable:
    return Unavailable.for_seconds(wait_seconds, "Too many unknown API keys came from this network.")


def _require_live(api_key: Document, now: Instant) -> None:
    expiration = api_key.get("expirationInstant")
    if expiration is not None and expiration <= now:
        raise Unauthorized(log_detail=f"the API key {api_key['id']} has expired")


def require_permission(api_key: Document, endpoint: str, method: str, *, key_manager: bool) -> None:
    """Raise Unauthorized for a call that the permissions of an API key or an administrator do not include."""
    if key_manager:
        if not api_key["keyManager"]:
            raise Unauthorized(log_detail=f"the API key {api_key['id']} is not a key manager")
        return
    if api_key.get("tenantId") is not None and permissions.is_global_only(endpoint, method):
        raise Unauthorized(
            log_detail=f"{method} {endpoint} needs an API key without a tenant, and {api_key['id']} has one"
        )
    if not permissions.may_call(api_key["permissions"]["endpoints"], endpoint, method):
        raise Unauthorized(log_detail=f"the API key {api_key['id']} has no permission for {method} {endpoint}")


async def _require_address(services: Services, api_key: Document, origin: Origin) -> None:
    acl_id = api_key.get("ipAccessControlListId")
    if acl_id is None:
        return
    acl = await services.limits.ip_access_control_lists.find_cached(None, acl_id)
    if acl is None or not ip_access.allows(acl["entries"], origin.ip_address):
        raise Unauthorized(log_detail=f"the access control list of the API key {api_key['id']} blocks the address")
