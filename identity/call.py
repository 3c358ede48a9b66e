"""The context of one request: its tenant, caller, instant and origin."""

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
    """The origin of a request; `base_url` is the URL of the service as the caller sees it, without a slash at the end.

    `trace` is its trace, if any; `via` are the services whose deliveries caused it, as the request states.
    `client_certificate` is that of the client's TLS connection in DER form, as a trusted proxy states it (RFC 8705).
    """

    ip_address: str
    user_agent: str
    request_id: str
    base_url: str
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()
    client_certificate: bytes | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class ApiKeyCaller:
    """A caller with a valid API key that may use the route."""

    api_key: Document

    @property
    def tenant_id(self) -> TenantId | None:
        """The tenant of the key, or None for a global key."""
        return self.api_key.get("tenantId")

    @property
    def name(self) -> str:
        """The name of the key in logs: its description or its id, never its value."""
        attributes = self.api_key.get("metaData", {}).get("attributes", {})
        return str(attributes.get("description") or self.api_key["id"])


class AdministratorCaller(ApiKeyCaller):
    """An administrator who is signed in to the console, with the authority of an API key of the same permissions.

    That key exists for the call only; its id is that of the user.
    """

    __slots__ = ()


class EntityCaller(ApiKeyCaller):
    """An entity with an access token, with the authority of an API key of its tenant; its id is that of the entity."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class AnonymousCaller:
    """A caller of a public route, or the service itself."""

    tenant_id: TenantId | None = None
    name: str = "anonymous"


Caller = ApiKeyCaller | AnonymousCaller


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One request. `tenant_id` is None where no tenant is concerned or named; see `crud.require_tenant`.

    `event_info` is the `eventInfo` of the body, once it is read. `devices` are the cookies that identify a browser on
    our pages as a known device; None for other callers. `is_client_authenticated`: the caller is an OAuth client with
    valid credentials, such as a backend with many users.
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
        """The user's address, for rate limits; None for a backend that does not state it."""
        if self.may_state_origin:
            stated = self.event_info.get("ipAddress")
            return stated if isinstance(stated, str) and stated else None
        return None if self.is_client_authenticated else self.origin.ip_address

    @property
    def via(self) -> tuple[str, ...]:
        """The services whose deliveries caused the request; only callers with an API key may state them.

        Other callers could state a list that makes the next service reject the events of the request.
        """
        return self.origin.via if isinstance(self.caller, ApiKeyCaller) else ()

    def within(self, tenant_id: TenantId) -> Call:
        """Return the call with a tenant that was resolved later."""
        return dataclasses.replace(self, tenant_id=tenant_id)
