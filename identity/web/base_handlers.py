"""Base handlers: authenticate, resolve the tenant, parse, validate, call the operation, render the response.

A route is a path template and a handler class, whose methods are declared by `@endpoint`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable, Collection, Mapping
from typing import Any, ClassVar

import orjson
import structlog
import tornado.web

from identity import request_facts, write_guard
from identity.call import AdministratorCaller, AnonymousCaller, ApiKeyCaller, Call, Caller, Document, Origin
from identity.domain.objects import request_members
from identity.errors import Invalid, LoopDetected, MethodNotAllowed, OAuth2Error, ServiceError, Unavailable
from identity.ids import TenantId
from identity.operations.api.discovery import JsonDocument
from identity.operations.groups import administrators
from identity.operations.objects import audited_writes, features
from identity.permissions import endpoint_of
from identity.services import Services
from identity.store import outages
from identity.store.outages import OUTAGES
from identity.web import authentication, cross_origin, internal_requests
from identity.web.client_address import REQUEST_ID_HEADER, ClientAddresses
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Access, Endpoint, Method, Parameters, Reply, Tenancy
from identity.web.in_flight import InFlight
from identity.web.request import RequestReader, is_method_override
from identity.web.request_context import RequestContext
from identity.web.response import ResponseWriter, errors_body

_log = structlog.get_logger(__name__)

_ABSENT = frozenset({"null", "undefined"})
"""What clients in JavaScript send for a query parameter without a value."""

_OUTAGE = "The service cannot answer this request now. Try again."
_OUTAGE_SECONDS = 2
"""Retry-After during an outage of a store. The service itself has waited for the election of a primary."""
_KEYED = frozenset({Access.API_KEY, Access.KEY_MANAGER, Access.OPTIONAL_KEY})
_EXPLAINED = frozenset(range(401, 500))
"""The refusals whose reason is logged; responses with the status 400 name it themselves, and may repeat input."""
_OTHER_SCHEMES: Mapping[Access, Collection[str]] = {
    Access.CLIENT_OR_KEY: {"basic"},
    Access.KEY_OR_BEARER: {"bearer", "jwt"},
}
"""The schemes of an Authorization header that is not an API key."""


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """A path template such as `/api/webhook/{webhookId}`, its handler class, and the arguments of the handler."""

    template: str
    handler: type[BaseHandler]
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def pattern(self) -> str:
        """The regular expression of the template; it allows a trailing slash."""
        return re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.template) + "/?"


class BaseHandler(RequestReader, ResponseWriter):
    """Shared by all handlers; subclasses differ in how they read bodies and render errors."""

    services: Services
    caller: Caller
    cross_origin: ClassVar[CrossOriginAccess] = CrossOriginAccess.CONFIGURED
    accepts_dpop_proof: ClassVar[bool] = False
    media_type: ClassVar[str] = "application/json"
    """The media type of JSON in requests and responses."""

    def initialize(
        self, *, services: Services, addresses: ClientAddresses, in_flight: InFlight, template: str, **arguments: Any
    ) -> None:
        """Store the arguments of the application and of the route."""
        self.services, self.addresses, self.in_flight, self.template = services, addresses, in_flight, template
        self.request_id = addresses.request_id(self.request)
        self.event_info: Document = {}
        self.caller = AnonymousCaller()
        self.refusal: ServiceError | None = None
        self.refusal_reason = ""
        self.request_context = RequestContext(services, self.request, template)
        self.set_header(REQUEST_ID_HEADER, self.request_id)
        for name, value in arguments.items():
            setattr(self, name, value)
        self.require_secure_transport(services.config.server.hsts_seconds)

    @property
    def method(self) -> str:
        """The method that the request is authorized and audited as: HEAD counts as GET (RFC 9110 section 9.3.2)."""
        return "GET" if self.request.method == "HEAD" else self.request.method or ""

    async def head(self, **path: str) -> None:
        """Handle as GET; Tornado sends the headers alone."""
        answer = self.get(**path)
        if answer is not None:
            await answer

    def prepare(self) -> Awaitable[None] | None:
        """Refuse requests of an endless loop of webhook deliveries, and check cross-origin requests."""
        if self.request_context.is_endless(self.request_id):
            error = LoopDetected("The request was brought about by deliveries of events that would have no end.")
            self.send(Reply(errors_body(error), error.status))
            return None
        if "Origin" not in self.request.headers or self.cross_origin in cross_origin.CHECKED_BY_ROUTE:
            return None
        return self.check_origin()

    async def check_origin(self) -> None:
        """Refuse a cross-origin request, respond to a preflight, or continue with the CORS headers."""
        decision = await cross_origin.decide(
            self.services, self.cross_origin, self.request, self.addresses.base_url(self.request), self.origin
        )
        self.cross_origin_headers = decision.headers
        for name, value in decision.headers.items():
            self.set_header(name, value)
        if decision.status is not None:
            self.send(Reply(status=decision.status, reason=decision.reason))

    async def run(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> None:
        """Handle one request, and render its reply or its failure."""
        request_facts.begin(self.request_context.facts)
        write_guard.begin(administrators.guard_of(self.services, self.caller))
        with self.in_flight:
            await self.run_counted(declared, method, path)

    async def run_counted(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> None:
        """Handle a request that is counted as in flight."""
        try:
            reply = await self.answer(declared, method, path)
        except ServiceError as error:
            self.refuse_counted(error)
        except tornado.web.HTTPError:
            raise
        except OUTAGES as error:
            reason = outages.reason(error)
            _log.warning("a store is unavailable", request_id=self.request_id, route=self.template, outage=reason)
            self.refuse_counted(Unavailable(_OUTAGE, log_detail=reason, retry_after_seconds=_OUTAGE_SECONDS))
        except Exception:  # noqa: BLE001 (logged in full; the response has no details)
            _log.exception("request failed", request_id=self.request_id, route=self.template)
            self.fail()
        else:
            if reply.pieces is None:
                self.send(reply)
            else:
                await self.send_pieces(reply.pieces, reply.headers)

    def refuse_counted(self, error: ServiceError) -> None:
        """Send an error, and keep it for the access log."""
        self.refusal = error
        if isinstance(error, Unavailable):
            self.retry_after_seconds = error.retry_after_seconds
        self.refuse(error)

    async def answer(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> Reply:
        """Authenticate, resolve the tenant, read the body, and call the method."""
        self.declared = declared
        call = await self.open_call(declared)
        self.caller = call.caller
        features.require(self.services, self.feature(declared))
        reply = await method(call, **self.path_ids(path), **self.read_body(declared))
        await self.audit(call, reply)
        return reply

    def read_body(self, declared: Endpoint) -> dict[str, Any]:
        """Return the body argument of the method, if it has one. Raises Invalid."""
        if declared.raw_body or declared.body is not None:
            body = self.json_object() if declared.body_required else self.optional_body()
            return {"body": body if declared.body is None else self.services.schemas[declared.body].read(body)}
        if self.request.method == "DELETE":
            self.optional_body()  # for its `eventInfo`; a body that is present must be JSON
        return {}

    async def audit(self, call: Call, reply: Reply) -> None:
        """Record a successful call in the audit log, if the subclass does so."""

    async def open_call(self, declared: Endpoint) -> Call:
        """Return the call with its caller and tenant. Raises Unauthorized, and Invalid for an unknown tenant."""
        now = self.services.clock.now()
        if not self.services.configuration.system.is_fresh:
            await self.services.configuration.system.refresh()
        origin = self.origin()
        method = self.method
        authorization = self.request.headers.get("Authorization", "")
        header = self.request.headers.get("X-FusionAuth-TenantId")
        presented = internal_requests.caller_of(self.request)
        if presented is not None:
            authentication.require_permission(
                presented.api_key, endpoint_of(self.template), method,
                key_manager=declared.access is Access.KEY_MANAGER,
            )  # fmt: skip
            self.caller = presented
        elif declared.access in _KEYED or _is_key(declared.access, authorization):
            self.caller = await authentication.authenticate(
                self.services, authorization, origin, now, endpoint_of(self.template), method,
                key_manager=declared.access is Access.KEY_MANAGER, optional=declared.access is Access.OPTIONAL_KEY,
            )  # fmt: skip
        elif declared.access is Access.RECOGNIZED_KEY:
            self.caller = await authentication.find_caller(
                self.services, authorization, origin, now, endpoint_of(self.template), method, header
            )
        tenant_id = await self.find_tenant_id(declared.tenancy, header)
        write_guard.begin(administrators.guard_of(self.services, self.caller))
        return Call(tenant_id, self.caller, now, origin, self.event_info)

    async def find_tenant_id(self, tenancy: Tenancy, header: str | None) -> TenantId | None:
        """Return the tenant that API key and header determine. Raises Unauthorized and Invalid."""
        if tenancy is Tenancy.BY_OPERATION:
            return None
        is_named = tenancy is Tenancy.AS_NAMED
        find = authentication.find_named_tenant_id if is_named else authentication.find_tenant_id
        return await find(self.services, self.caller, header)

    def prepared_reply(self, document: JsonDocument, cache_control: str) -> Reply:
        """Return a prepared document with the CORS headers of a public one, or 304 if the client has it."""
        headers = {"Cache-Control": cache_control, "ETag": document.etag, **cross_origin.OPEN_HEADERS}
        if document.etag in self.request.headers.get("If-None-Match", ""):
            return Reply(status=304, headers=headers)
        return Reply(document.body, headers={**headers, "Content-Type": "application/json"})

    def feature(self, declared: Endpoint) -> str | None:
        """Return the feature of `license.features` that enables the method."""
        return declared.feature

    def origin(self) -> Origin:
        """Return the origin of the request."""
        return Origin(
            self.client_address(),
            self.request.headers.get("User-Agent", "")[:512],
            self.request_id,
            self.addresses.base_url(self.request),
            self.request_context.trace,
            self.request_context.via,
            self.client_certificate(),
        )

    def client_address(self) -> str:
        """Return the address of the client, behind the proxies of the configuration and of the system settings."""
        trusted_proxies = self.services.configuration.system.settings.trusted_proxies
        return self.addresses.client_address(self.request, trusted_proxies)

    def client_certificate(self) -> bytes | None:
        """Return the client's certificate in DER form, if mutual TLS is on and a trusted proxy sent one."""
        settings = self.services.config.mutual_tls
        if not settings.enabled:
            return None
        return self.addresses.client_certificate(self.request, settings.certificate_header)

    def access_entry(self) -> dict[str, Any]:
        """Return what the access log records about the caller, the client, the user, and the reason of a refusal."""
        status, caller = self.get_status(), self.caller
        facts, is_administrator = self.request_context.facts, isinstance(caller, AdministratorCaller)
        key_id = caller.api_key["id"] if isinstance(caller, ApiKeyCaller) else None
        entry = {
            "request_id": self.request_id,
            "address": self.client_address(),
            "client_id": facts.client_id,
            "user_id": key_id if is_administrator else facts.user_id,
            "api_key_id": None if is_administrator else key_id,
        }
        if isinstance(self.refusal, OAuth2Error):
            entry |= {"error": self.refusal.error, "error_reason": self.refusal.reason}
        if status in _EXPLAINED:
            entry["reason"] = self.refusal_reason or refusal_reason(self.refusal)
        return {name: value for name, value in entry.items() if value is not None}

    def on_finish(self) -> None:
        """End the span of the request."""
        self.request_context.end(self.get_status(), self.request_id)

    def data_received(self, chunk: bytes) -> None:
        """Ignore chunks: bodies are read as a whole, up to `server.max_body_bytes`."""


def refusal_reason(error: ServiceError | None) -> str:
    """Return the log text of a refusal, which holds no secrets."""
    if error is None:
        return "unknown"
    return error.log_detail or error.message or type(error).__name__


def _is_key(access: Access, authorization: str) -> bool:
    """Return whether a header that may hold client credentials or an access token holds an API key."""
    scheme = authorization.strip().partition(" ")[0].lower()
    return bool(scheme) and scheme not in _OTHER_SCHEMES.get(access, {scheme})


class ApiHandler(BaseHandler):
    """The management API: JSON in, JSON out with members in alphabetical order, the Errors object on 400."""

    json_options = orjson.OPT_SORT_KEYS

    def initialize(self, **arguments: Any) -> None:
        """Apply the method override before anything reads the method: routing, permissions, CORS, audit log."""
        if is_method_override(self.request):
            self.request.method = "PATCH"
        super().initialize(**arguments)

    def query(self) -> Parameters:
        """Return the query parameters; those without a value count as absent."""
        query = super().query()
        for name in [name for name, value in query.items() if value in _ABSENT]:
            del query[name]
        return query

    def texts(self, name: str) -> list[str]:
        """Return every value of a repeatable query parameter that has one."""
        return [text for text in super().texts(name) if text not in _ABSENT]

    async def audit(self, call: Call, reply: Reply) -> None:
        """Write a row of the audit log about a change by an administrator, or with `audit.api_writes` an API key."""
        method, caller = self.method, call.caller
        if isinstance(caller, ApiKeyCaller) and audited_writes.is_recorded(self.services, caller, method):
            endpoint = endpoint_of(self.template)
            # An id that is not a UUID is a secret, such as a change password id.
            path = self.request.path if self.uuid_paths else self.named(self.template)
            flags = {name: value for name, value in self.query().items() if value in {"true", "false"}}
            write = audited_writes.ApiWrite(method, endpoint, path, flags, reply.status)
            await audited_writes.record(self.services, call, caller, write)

    def request_schema(self) -> str | None:
        """Return the name of the schema of the JSON body; None if the endpoint declares none."""
        name = self.declared.body or self.declared.takes
        name = None if name is None else name.format(**vars(self))
        return name if name is not None and name.startswith("api/") else None

    def ignored_members(self) -> list[request_members.Path]:
        """Return the members of the JSON body that its schema does not have."""
        name = None if self.json_request is None else self.request_schema()
        return [] if name is None else request_members.ignored(self.services.schemas[name].schema, self.json_request)

    def send(self, reply: Reply) -> None:
        """Send a reply that names the members of the request that had no effect."""
        if ignored := self.ignored_members():
            self.set_header(request_members.HEADER, request_members.listed(ignored))
        super().send(reply)

    def refuse(self, error: ServiceError) -> None:
        """Send the Errors JSON for 400, 413, 503, 504, 508 and 512, and an empty body otherwise."""
        if isinstance(error, Invalid):
            error = request_members.with_suggestions(error, self.ignored_members())
        headers = {"Allow": self.allow()} if error.status == MethodNotAllowed.status else {}
        self.send(Reply(errors_body(error), error.status, headers))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Render Tornado's own errors; 400 always has an Errors body, because clients read one."""
        if status_code != Invalid.status:
            super().write_error(status_code, **kwargs)
        elif self.content_type().startswith(("multipart/", "application/x-www-form-urlencoded")):
            self.refuse(self.unsupported(self.content_type()))
        else:
            self.refuse(Invalid.whole("[invalid]", "The path of the request cannot be read."))
