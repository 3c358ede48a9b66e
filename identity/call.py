"""What one request is about: its tenant, caller, instant and origin."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from identity.ids import TenantId
from identity.instants import Instant
from identity.trace_context import TraceContext

Document = dict[str, Any]
"""A JSON object with its wire keys, the same in the API and in MongoDB."""


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Where a request came from; `base_url` is the service's own address as that caller sees it, without a slash.

    `trace` is the trace that it belongs to, if any; `via` the services whose deliveries brought it about, as it says.
    """

    ip_address: str
    user_agent: str
    request_id: str
    base_url: str
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ApiKeyCaller:
    """A caller who showed a valid API key that may use this route."""

    api_key: Document

    @property
    def tenant_id(self) -> TenantId | None:
        """The tenant that the key is locked to, or None for a global key."""
        return self.api_key.get("tenantId")

    @property
    def name(self) -> str:
        """How the key is spoken of in logs: its description or its id, never its value."""
        attributes = self.api_key.get("metaData", {}).get("attributes", {})
        return str(attributes.get("description") or self.api_key["id"])


@dataclasses.dataclass(frozen=True, slots=True)
class AnonymousCaller:
    """A caller of a public route, or the service itself."""

    tenant_id: TenantId | None = None
    name: str = "anonymous"


Caller = ApiKeyCaller | AnonymousCaller


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One request. `tenant_id` is None only where no tenant is meant: see `require_tenant`.

    `event_info` is what the body tells of the request's origin, from when it is read. `devices` are the cookies by
    which a browser at one of our pages is known to its users; None for every other caller. `is_client_authenticated`:
    an OAuth client that presented valid credentials makes the call, a backend with many users.
    """

    tenant_id: TenantId | None
    caller: Caller
    now: Instant
    origin: Origin
    event_info: Document = dataclasses.field(default_factory=dict)
    devices: Mapping[str, str] | None = dataclasses.field(default=None, repr=False)
    is_client_authenticated: bool = False

    @property
    def may_state_origin(self) -> bool:
        """Whether the caller may state the user's `ipAddress` and `eventInfo.location`: only with an API key."""
        return isinstance(self.caller, ApiKeyCaller)

    @property
    def user_address(self) -> str | None:
        """The user's address, for rate limits; None where a backend calls for its user and does not state it."""
        if self.may_state_origin:
            stated = self.event_info.get("ipAddress")
            return stated if isinstance(stated, str) and stated else None
        return None if self.is_client_authenticated else self.origin.ip_address

    @property
    def via(self) -> tuple[str, ...]:
        """The services whose deliveries brought the request about, which is believed of callers with an API key alone.

        Anybody else could write a list with which the next service refuses to hear of what they did.
        """
        return self.origin.via if isinstance(self.caller, ApiKeyCaller) else ()

    def within(self, tenant_id: TenantId) -> Call:
        """The same call, inside a tenant that became known on the way."""
        return dataclasses.replace(self, tenant_id=tenant_id)
