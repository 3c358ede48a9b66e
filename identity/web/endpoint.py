"""The handler families and `@endpoint`: authenticate, find the tenant, parse, validate, call, render.

A route is a path template and a handler class; a handler method is decorated with `@endpoint(access=...)`, takes the
Call, its path ids and its body, and returns a Reply. There is no handler without a declared access.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from http.cookies import Morsel, SimpleCookie
from typing import Any, ClassVar, Literal

import orjson
import structlog
import tornado.web
from tornado.iostream import StreamClosedError

from identity.call import ApiKeyCaller, Call, Document, Nobody, Origin
from identity.domain import patch as patches
from identity.errors import (
    Invalid,
    LambdaFailed,
    LoopDetected,
    MethodNotAllowed,
    NotFound,
    ServiceError,
    TooLarge,
    Unavailable,
)
from identity.ids import parse_id
from identity.operations import audited_writes, features
from identity.permissions import endpoint_of
from identity.services import Services
from identity.store.outages import OUTAGES
from identity.web import authentication, cross_origin, json_body
from identity.web.client_address import AddressBook
from identity.web.cross_origin import CrossOriginAccess
from identity.web.in_flight import InFlight
from identity.web.lineage import Lineage

_log = structlog.get_logger(__name__)

_HTTP_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})


class Access(enum.Enum):
    """Who may call a route. PUBLIC has to be written out; CLIENT and BEARER are judged by the operation.

    CLIENT_OR_KEY: an Authorization header that is not that of a client (Basic) has to be an API key. KEY_OR_BEARER: one
    that does not hold an access token (Bearer, or JWT as older clients say) has to be an API key; without the header
    the operation judges what else there is.
    """

    API_KEY = "api-key"
    KEY_MANAGER = "key-manager"
    OPTIONAL_KEY = "optional-key"
    CLIENT = "client"
    CLIENT_OR_KEY = "client-or-key"
    BEARER = "bearer"
    KEY_OR_BEARER = "key-or-bearer"
    BROWSER = "browser"
    PUBLIC = "public"


class Tenancy(enum.Enum):
    """Whether the tenant of a call is worked out from key and header, or by the operation itself.

    AS_NAMED is key and header, too, but of one that is not named there is none, even if only one tenant exists: for
    what belongs to a tenant or to the instance.
    """

    BY_KEY_AND_HEADER = "key-and-header"
    AS_NAMED = "named"
    BY_OPERATION = "operation"


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What a handler answers: a JSON object, prepared bytes, pieces of either, or nothing."""

    body: Mapping[str, Any] | bytes | None = None
    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cookies: Sequence[Morsel[str]] = ()
    pieces: AsyncGenerator[bytes, None] | None = None


Query = Mapping[str, Literal["text", "texts", "uuid", "uuids", "boolean", "integer", "instant"]]
"""The query parameters of a method: name -> what it holds (`texts` and `uuids`: may be repeated)."""

Answers = str | Mapping[int, str | None] | None
"""What a method answers with when all goes well, for the OpenAPI document.

The name of a schema, such as `api/version.response.json`, or `api/api-key.json#apiKey` for an object with just that
member of a schema; a media type for what is no JSON; None for an empty body. Names are formatted with the arguments of
the route. A mapping gives it by status; an empty mapping is for a method that only ever refuses. A name with a `?` at
the end is of a body that is not always there.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """What `@endpoint` declares about one method."""

    access: Access
    body: str | None = None
    raw_body: bool = False
    form: str | None = None
    answer: Answers = None
    query: Query | str = dataclasses.field(default_factory=dict)
    tenancy: Tenancy = Tenancy.BY_KEY_AND_HEADER
    feature: str | None = None
    takes: str | None = None


Method = Callable[..., Awaitable[Reply]]
Answer = Callable[..., Awaitable[None]]
"""A decorated method, as Tornado calls it."""


def endpoint(  # noqa: PLR0913 (the columns of a table, each by its name)
    *,
    access: Access,
    body: str | None = None,
    raw_body: bool = False,
    form: str | None = None,
    answer: Answers = None,
    query: Query | str | None = None,
    tenancy: Tenancy = Tenancy.BY_KEY_AND_HEADER,
    feature: str | None = None,
    takes: str | None = None,
) -> Callable[[Method], Answer]:
    """Declare a handler method.

    `body` names the schema of its JSON body, `form` that of its form; `raw_body` hands over the parsed JSON object
    unjudged, for operations that judge it themselves (create and update of declared resources); `takes` names the
    schema of a body that the method reads, or hands over, by itself. `query` are its query parameters, and no others
    can be read; a text names a schema that has them. `answer`, `takes` and `query` make the OpenAPI document. `feature`
    is the one of `license.features` without which callers, once they are known, are told [NotLicensed].
    """
    declared = Endpoint(access, body, raw_body, form, answer, query or {}, tenancy, feature, takes)

    def decorate(method: Method) -> Answer:
        @functools.wraps(method)
        async def run(self: Family, **path: str) -> None:
            await self.run(declared, functools.partial(method, self), path)

        run.endpoint = declared  # type: ignore[attr-defined]
        return run

    return decorate


class Parameters(dict[str, str]):
    """The query parameters of a request: what nobody declared is there, but cannot be asked for."""

    def __init__(self, given: Mapping[str, str], declared: Collection[str]) -> None:
        super().__init__(given)
        self._declared = declared

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict. Raises LookupError for a parameter that the endpoint does not declare: a programming error."""
        require_declared(name, self._declared)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        require_declared(name, self._declared)
        return super().__getitem__(name)


def require_declared(name: str, declared: Collection[str]) -> None:
    """Raise LookupError for a query parameter that is not declared, and so not in the OpenAPI document."""
    if name not in declared:
        raise LookupError(f"the endpoint does not declare the query parameter {name}")


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """A path template such as `/api/webhook/{webhookId}`, its handler class, and what the handler is given."""

    template: str
    handler: type[Family]
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def pattern(self) -> str:
        """The regular expression of the template; a trailing slash is let through."""
        return re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.template) + "/?"


class Family(tornado.web.RequestHandler):
    """What every handler shares; the families differ in how they read bodies and render errors."""

    services: Services
    addresses: AddressBook
    in_flight: InFlight
    template: str
    declared: Endpoint
    SUPPORTED_METHODS: tuple[str, ...] = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    cross_origin: ClassVar[CrossOriginAccess] = CrossOriginAccess.CONFIGURED
    cross_origin_headers: Mapping[str, str] = {}
    uuid_paths: ClassVar[bool] = True
    takes_proof: ClassVar[bool] = False
    json_options: ClassVar[int] = 0

    def initialize(
        self, *, services: Services, addresses: AddressBook, in_flight: InFlight, template: str, **arguments: Any
    ) -> None:
        """Take what the application hands to every handler."""
        self.services, self.addresses, self.in_flight, self.template = services, addresses, in_flight, template
        # Names a request in the logs and nothing else: it may be guessed, and must not cost a system call.
        self.request_id = f"{random.getrandbits(128):032x}"
        self.event_info: Document = {}
        self.lineage = Lineage(services, self.request, template)
        for name, value in arguments.items():
            setattr(self, name, value)

    def prepare(self) -> Awaitable[None] | None:
        """Judge a request that a page of another site may have made; others pass without a pause.

        One that a delivery of ours has brought about is refused: its events would be delivered, and so on for ever.
        """
        if self.lineage.is_endless(self.request_id):
            error = LoopDetected("The request was brought about by deliveries of events that would have no end.")
            self.send(Reply(errors_body(error), error.status))
            return None
        if "Origin" not in self.request.headers or self.cross_origin is CrossOriginAccess.BY_PAGE:
            return None
        return self.judge_origin()

    async def judge_origin(self) -> None:
        """Refuse the request, answer it if it is a preflight, or let it go on with the headers for its answer."""
        verdict = await cross_origin.judge(
            self.services, self.cross_origin, self.request, self.addresses.base_url(self.request), self.origin
        )
        self.cross_origin_headers = verdict.headers
        for name, value in verdict.headers.items():
            self.set_header(name, value)
        if verdict.status is not None:
            self.send(Reply(status=verdict.status))

    async def run(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> None:
        """One request from its headers to its reply, with every failure rendered by the family."""
        with self.in_flight.request():
            await self.run_counted(declared, method, path)

    async def run_counted(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> None:
        """As `run`, inside the count of requests in flight."""
        try:
            reply = await self.answer(declared, method, path)
        except ServiceError as error:
            self.refuse(error)
        except tornado.web.HTTPError:
            raise
        except OUTAGES as error:
            _log.warning("a store is away", request_id=self.request_id, route=self.template, error=type(error).__name__)
            self.refuse(Unavailable("The service cannot answer this request now. Try again."))
        except Exception:  # noqa: BLE001 (logged whole, and answered with nothing of it)
            _log.exception("request failed", request_id=self.request_id, route=self.template)
            self.fail()
        else:
            if reply.pieces is None:
                self.send(reply)
            else:
                await self.send_pieces(reply.pieces, reply.headers)

    async def answer(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> Reply:
        """Authenticate, find the tenant, read the body, call."""
        self.declared = declared
        call = await self.open_call(declared)
        features.require(self.services, self.feature(declared))
        reply = await method(call, **self.path_ids(path), **self.read_body(declared))
        await self.performed(call, reply)
        return reply

    def read_body(self, declared: Endpoint) -> dict[str, Any]:
        """What the method is handed of the body. Raises Invalid."""
        if declared.raw_body:
            return {"body": self.json_object()}
        if declared.body is not None:
            return {"body": self.services.schemas[declared.body].read(self.json_object())}
        if self.request.method == "DELETE":
            self.optional_body()  # not all look at it, but what there is must be JSON, and may tell of the origin
        return {}

    async def performed(self, call: Call, reply: Reply) -> None:
        """What a family does after a call that was not refused."""

    async def open_call(self, declared: Endpoint) -> Call:
        """The call, with its caller and tenant. Raises Unauthorized, and Invalid for an unknown tenant."""
        now = self.services.clock.now()
        if not self.services.system.is_fresh:
            await self.services.system.refresh()
        origin = self.origin()
        method = self.request.method or ""
        authorization = self.request.headers.get("Authorization", "")
        if declared.access in _KEYED or _is_key(declared.access, authorization):
            caller = await authentication.caller(
                self.services, authorization, origin, now, endpoint_of(self.template), method,
                key_manager=declared.access is Access.KEY_MANAGER, optional=declared.access is Access.OPTIONAL_KEY,
            )  # fmt: skip
        else:
            caller = Nobody()
        call = Call(None, caller, now, origin, self.event_info)
        if declared.tenancy is Tenancy.BY_OPERATION:
            return call
        header = self.request.headers.get("X-FusionAuth-TenantId")
        find = authentication.named_tenant if declared.tenancy is Tenancy.AS_NAMED else authentication.tenant
        return dataclasses.replace(call, tenant_id=await find(self.services, caller, header))

    def feature(self, declared: Endpoint) -> str | None:
        """The feature of `license.features` that this method belongs to."""
        return declared.feature

    def origin(self) -> Origin:
        """Where the request came from."""
        return Origin(
            self.addresses.client_address(self.request, self.services.system.settings.trusted_proxies),
            self.request.headers.get("User-Agent", "")[:512],
            self.request_id,
            self.addresses.base_url(self.request),
            self.lineage.trace,
            self.lineage.via,
        )

    def on_finish(self) -> None:
        """The answer is out."""
        self.lineage.end(self.get_status(), self.request_id)

    def path_ids(self, path: Mapping[str, str]) -> dict[str, Any]:
        """The ids in the path, in canonical form. Raises Invalid for one that is no UUID."""
        ids: dict[str, Any] = {}
        for name, text in path.items():
            value = parse_id(text) if self.uuid_paths else text
            if value is None:
                called = self.path_name(name)
                raise Invalid.field("couldNotConvert", called, f"The [{called}] in the path must be a UUID.")
            ids[name] = value
        return ids

    def path_name(self, name: str) -> str:
        """How an id in the path is called in errors and in the OpenAPI document: `user_id` is `userId`."""
        return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)

    def named(self, template: str) -> str:
        """A template with its ids under the names that the API gives them: `/api/webhook/{webhookId}`."""
        return re.sub(r"\{(\w+)\}", lambda match: f"{{{self.path_name(match[1])}}}", template)

    def json_object(self) -> Document:
        """The JSON body. Raises Invalid."""
        kind = self.content_type()
        if kind not in {"application/json", ""} and self.request.body:
            raise self.unsupported(kind)
        body = json_body.parse_object(self.request.body)
        self.note_event_info(body)
        return body

    def content_type(self) -> str:
        """The media type of the body, without parameters, lower-cased."""
        return self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def patch_body(self) -> tuple[str, Any]:
        """The kind of patch and its JSON. Raises Invalid for a Content-Type that is no kind of patch."""
        kind = self.content_type() or patches.MERGE
        if kind not in patches.CONTENT_TYPES:
            raise self.unsupported(kind)
        body = json_body.parse(self.request.body)
        self.note_event_info(body)
        return kind, body

    def unsupported(self, kind: str) -> Invalid:
        """The error of a body of a media type that is not read here."""
        return Invalid.whole("[UnsupportedContentType]", f"The Content-Type [{kind[:100]}] is not supported here.")

    def note_event_info(self, body: Any) -> None:
        """Let the call, and so its events, know what a body tells of the request's origin, whoever reads the body."""
        info = body.get("eventInfo") if isinstance(body, dict) else None
        if isinstance(info, dict):
            self.event_info.update(info)

    def query_of(self, declared: Endpoint) -> Query:
        """The query parameters of a method; some follow from what the handler serves."""
        return {} if isinstance(declared.query, str) else declared.query

    def optional_body(self) -> Document:
        """The JSON object of a request that may also have no body."""
        return self.json_object() if self.request.body else {}

    def query(self) -> Parameters:
        """The query parameters, the last of a repeated name."""
        arguments = self.request.query_arguments.items()
        given = {name: values[-1].decode("utf-8", "replace") for name, values in arguments}
        return Parameters(given, self.query_of(self.declared))

    def texts(self, name: str) -> list[str]:
        """Every value of a query parameter that may be repeated."""
        require_declared(name, self.query_of(self.declared))
        return self.get_query_arguments(name)

    def flag(self, name: str) -> bool:
        """A boolean query parameter."""
        return str(self.query().get(name, "")).strip().lower() == "true"

    def new_cookie(self, name: str, value: str, max_age_seconds: int | None = None) -> Morsel[str]:
        """A cookie for this host alone, out of reach of scripts; without an age it ends with the browser."""
        morsel: Morsel[str] = SimpleCookie({name: value})[name]
        flags: dict[str, Any] = {"path": "/", "httponly": True, "samesite": "Lax"}
        if self.addresses.base_url(self.request).startswith("https:"):
            flags["secure"] = True
        if max_age_seconds is not None:
            flags["max-age"] = max_age_seconds
        morsel.update(flags)
        return morsel

    def send(self, reply: Reply) -> None:
        """Write a reply."""
        self.set_status(reply.status)
        if self.in_flight.is_draining:
            self.set_header("Connection", "close")
        for name, value in reply.headers.items():
            self.set_header(name, value)
        for morsel in reply.cookies:
            self.add_header("Set-Cookie", morsel.OutputString())
        if reply.body is None:
            self.clear_header("Content-Type")
            self.finish()
            return
        if isinstance(reply.body, bytes):
            self.finish(reply.body)
            return
        if "Content-Type" not in reply.headers:
            self.set_header("Content-Type", "application/json")
        self.finish(orjson.dumps(reply.body, option=self.json_options))

    async def send_pieces(self, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str]) -> None:
        """Write JSON, or what the headers say, each piece when the one before has left.

        What fails on the way is cut off.
        """
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.set_header(name, value)
        if self.in_flight.is_draining:
            self.set_header("Connection", "close")
        async with contextlib.aclosing(pieces):
            try:
                async for piece in pieces:
                    self.write(piece)
                    await self.flush()
            except StreamClosedError:
                return
            except Exception:  # noqa: BLE001 (it is too late for another status)
                _log.exception("answer broke off", request_id=self.request_id, route=self.template)
                self.detach().close()
                self.on_finish()
                return
        self.finish()

    def refuse(self, error: ServiceError) -> None:
        """Render what a caller may be told: the status alone, where a family has no shape of its own."""
        self.send(Reply(status=error.status))

    def fail(self) -> None:
        """Render an unexpected failure: nothing of it leaves the service."""
        self.send(Reply(status=500))

    def set_default_headers(self) -> None:
        """Headers of every answer, errors included."""
        self.set_header("Server", "identity")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        for name, value in self.cross_origin_headers.items():
            self.set_header(name, value)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Tornado's own refusals: 405 or, for a method that HTTP does not have, 501, empty; a malformed request."""
        self.clear_header("Content-Type")
        if status_code == MethodNotAllowed.status:
            self.set_header("Allow", self.allowed())
            if self.request.method not in _HTTP_METHODS:
                self.set_status(501)
        self.finish()

    def allowed(self) -> str:
        """The methods of this path, for the Allow header (RFC 9110 section 15.5.6)."""
        return ", ".join(name for name in self.SUPPORTED_METHODS if hasattr(getattr(self, name.lower()), "endpoint"))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Tornado's own refusals are not worth a log line; the rest is logged in `run`."""
        if not isinstance(value, tornado.web.HTTPError):
            _log.error("request failed", request_id=self.request_id, exc_info=(typ, value, tb))

    def compute_etag(self) -> str | None:
        """No automatic ETag: prepared answers bring their own."""
        return None

    def data_received(self, chunk: bytes) -> None:
        """Bodies are read whole, within `server.max_body_bytes`."""


class ApiHandler(Family):
    """The management API: JSON in, JSON out with members in alphabetical order, the Errors object on 400."""

    json_options = orjson.OPT_SORT_KEYS

    async def performed(self, call: Call, reply: Reply) -> None:
        """Write a row of the audit log, where the operator asks for that."""
        method = self.request.method or ""
        if self.services.config.audit.api_writes and method != "GET" and isinstance(call.caller, ApiKeyCaller):
            endpoint = endpoint_of(self.template)
            # An id that is no UUID is a secret, such as that of a change of password.
            path = self.request.path if self.uuid_paths else self.named(self.template)
            flags = {name: value for name, value in self.query().items() if value in {"true", "false"}}
            write = audited_writes.ApiWrite(method, endpoint, path, flags, reply.status)
            await audited_writes.record(self.services, call, call.caller, write)

    def refuse(self, error: ServiceError) -> None:
        """The Errors JSON for 400, 413, 503, 504, 508 and 512; an empty body for the rest."""
        headers = {"Allow": self.allowed()} if error.status == MethodNotAllowed.status else {}
        self.send(Reply(errors_body(error), error.status, headers))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """As elsewhere, but 400 always has an Errors body, because clients read one."""
        if status_code != Invalid.status:
            super().write_error(status_code, **kwargs)
        elif self.content_type().startswith(("multipart/", "application/x-www-form-urlencoded")):
            self.refuse(self.unsupported(self.content_type()))
        else:
            self.refuse(Invalid.whole("[invalid]", "The path of the request cannot be read."))


_KEYED = frozenset({Access.API_KEY, Access.KEY_MANAGER, Access.OPTIONAL_KEY})
_OTHER_SCHEMES: Mapping[Access, Collection[str]] = {
    Access.CLIENT_OR_KEY: {"basic"},
    Access.KEY_OR_BEARER: {"bearer", "jwt"},
}
"""Where an Authorization header may be something else than an API key: by which schemes it is."""


def _is_key(access: Access, authorization: str) -> bool:
    """Whether a header that may hold the credentials of a client, or an access token, holds something else."""
    scheme = authorization.strip().partition(" ")[0].lower()
    return bool(scheme) and scheme not in _OTHER_SCHEMES.get(access, {scheme})


class Missing(Family):
    """What no route matches."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST", "DELETE", "PATCH", "PUT", "OPTIONS")

    async def prepare(self) -> None:
        """404, empty, whatever the method."""
        self.send(Reply(status=NotFound.status))


def errors_body(error: ServiceError) -> Document | None:
    """The Errors JSON of an error, or None where the body is empty."""
    if isinstance(error, Invalid):
        body: Document = {}
        for field in error.fields:
            entry = {"code": field.code, "message": field.message}
            body.setdefault("fieldErrors", {}).setdefault(field.path, []).append(entry)
        if error.general:
            body["generalErrors"] = [{"code": e.code, "message": e.message} for e in error.general]
        return body
    code = _GENERAL_CODES.get(error.status)
    return None if code is None else {"generalErrors": [{"code": code, "message": error.message or code}]}


_GENERAL_CODES = {
    TooLarge.status: "[TooLarge]",
    Unavailable.status: "[Unavailable]",
    504: "[WebhookTransactionException]",
    LoopDetected.status: "[LoopDetected]",
    LambdaFailed.status: "[LambdaFailed]",
}
