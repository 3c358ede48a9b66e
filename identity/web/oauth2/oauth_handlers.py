"""Base handlers of the OAuth endpoints: errors as OAuth JSON for clients, as a page for browsers."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http.cookies import Morsel
from typing import Any, ClassVar, Final

from identity.call import AnonymousCaller, Call, Document
from identity.domain.clients import dpop_proofs as dpop_proof_rules
from identity.errors import (
    AccessTokenRequired,
    FeatureOff,
    InsufficientUserAuthentication,
    InvalidClient,
    InvalidDpopProofAtResource,
    InvalidRequest,
    InvalidToken,
    LambdaFailed,
    MethodNotAllowed,
    NotLicensed,
    OAuth2Error,
    ServerError,
    ServiceError,
    TooLarge,
    UseDpopNonce,
)
from identity.ids import new_secret
from identity.operations.authorization import request_sources
from identity.operations.clients import client_authentication, refused_requests
from identity.operations.clients.clients import TenantHints
from identity.operations.clients.dpop_proofs import PresentedDpopProof
from identity.operations.entities import entity_clients
from identity.operations.login import known_devices
from identity.operations.webauthn import known_browsers
from identity.web.base_handlers import BaseHandler, Route
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Endpoint, Method, Reply
from identity.web.hosted import page_theme, render

FORM = "application/x-www-form-urlencoded"

AUTHORIZE_REQUEST: Final = "oauth2/authorize.request.json"
"""The parameters of an authorization request."""
NO_CACHE: Final = {"Pragma": "no-cache"}
_DEVICE_COOKIES: Final = (known_devices.COOKIE_PREFIX, known_browsers.COOKIE_PREFIX)
_UNDESCRIBABLE = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")
Values = Mapping[str, Sequence[bytes]]


class OAuth2Handler(BaseHandler):
    """Form request, JSON response; errors as OAuth JSON (RFC 6749 section 5.2)."""

    uuid_paths = False
    records_refusals: ClassVar[bool] = False
    """Whether refused requests are recorded for the developers of the client."""

    async def answer(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> Reply:
        """Answer the request; record its refusal where the endpoint does so."""
        try:
            return await super().answer(declared, method, path)
        except ServiceError as error:
            if self.records_refusals:
                await self.record_refusal(oauth_error(error))
            raise

    async def record_refusal(self, error: OAuth2Error) -> None:
        """Record a refused request with the parameters of its form, else of its query."""
        arguments = self.request.body_arguments or self.request.query_arguments
        given = {name: values[-1].decode("utf-8", "replace") for name, values in arguments.items() if values}
        call = Call(None, AnonymousCaller(), self.services.clock.now(), self.origin())
        authorization = self.request.headers.get("Authorization", "")
        await refused_requests.record(self.services, call, self.request.path, authorization, given, error)

    def read_body(self, declared: Endpoint) -> dict[str, Any]:
        """Return the form of a method that declares one. Raises InvalidRequest."""
        return super().read_body(declared) if declared.form is None else {"form": self.form(declared.form)}

    def form(self, schema: str) -> Document:
        """Return the parameters of the body; the query is ignored. Raises InvalidRequest."""
        if self.content_type() != FORM:
            raise InvalidRequest("unknown", f"The Content-Type must be {FORM}.")
        return read_parameters(self.request.body_arguments, self.services.schemas[schema].schema)

    def parameters(self) -> Document:
        """Return the parameters of the query, of which the endpoint declares the schema. Raises InvalidRequest."""
        schema = self.services.schemas[str(self.declared.query)].schema
        return read_parameters(self.request.query_arguments, schema)

    def tenant_hints(self, path: str | None, given: Document) -> TenantHints:
        """Return the tenant ids that a request names."""
        return TenantHints(path, given.get("tenantId"), self.request.headers.get("X-FusionAuth-TenantId", "").strip())

    def client_parameters(
        self, form: Document, path_tenant_id: str | None
    ) -> tuple[str, Document, TenantHints, str, bytes | None]:
        """Return what identifies the client: header, form, tenant hints, URL of this service, and its certificate."""
        authorization = self.request.headers.get("Authorization", "")
        hints = self.tenant_hints(path_tenant_id, form)
        return authorization, form, hints, self.addresses.base_url(self.request), self.client_certificate()

    async def identify_client(
        self, form: Document, path_tenant_id: str | None
    ) -> client_authentication.IdentifiedClient:
        """Return the client of a request, not authenticated yet. Raises InvalidRequest and InvalidClient."""
        return await client_authentication.identify(self.services, *self.client_parameters(form, path_tenant_id))

    async def authenticate_client_or_entity(
        self, use: str, form: Document, path_tenant_id: str | None
    ) -> client_authentication.AuthenticatedClient | entity_clients.EntityClient:
        """Return the application, authenticated for a use, or the entity. Raises InvalidRequest and InvalidClient."""
        return await entity_clients.authenticate_any(self.services, use, *self.client_parameters(form, path_tenant_id))

    def dpop_proof(self, call: Call) -> PresentedDpopProof | None:
        """Return the DPoP proof of this request, or None without the header (RFC 9449 section 4.1)."""
        return self.presented_dpop_proof(call) if dpop_proof_rules.SCHEME in self.request.headers else None

    def presented_dpop_proof(self, call: Call) -> PresentedDpopProof:
        """Return the DPoP headers of this request, of which there may be none."""
        headers = tuple(self.request.headers.get_list(dpop_proof_rules.SCHEME))
        urls = tuple(base_url + self.request.path for base_url in self.base_urls(call))
        return PresentedDpopProof(headers, self.request.method or "", urls)

    def base_urls(self, call: Call) -> Iterator[str]:
        """Yield the URL of this service, and the one for mutual TLS if the request came by it (RFC 8705 section 5)."""
        yield call.origin.base_url
        alias = self.services.config.mutual_tls.alias
        if alias is not None and (call.origin.client_certificate or self.addresses.is_sent_to(self.request, alias)):
            yield alias

    def authorization(self) -> tuple[str, str | None]:
        """Return the scheme of the Authorization header in lower case, and its credentials."""
        scheme, _, token = self.request.headers.get("Authorization", "").strip().partition(" ")
        return scheme.lower(), token.strip() or None

    def bearer_token(self) -> str | None:
        """Return the bearer token of the Authorization header, if any."""
        scheme, token = self.authorization()
        return token if scheme == "bearer" else None

    def cookie(self, name: str) -> str:
        """Return the value of a cookie, or an empty string."""
        return str(self.received_cookie(name) or "")

    @functools.cached_property
    def new_browser_secret(self) -> str:
        """The secret of a browser that has none yet, the same in all parts of a response."""
        return new_secret()

    def is_cross_origin(self) -> bool:
        """Return whether another origin made this request; our pages send no referrer, and hence the origin null."""
        site = self.request.headers.get("Sec-Fetch-Site")
        if site is not None:
            return site not in {"same-origin", "none"}
        origin = self.request.headers.get("Origin", "null")
        return origin not in {"null", self.addresses.base_url(self.request)}

    def is_browser_form(self) -> bool:
        """Return whether a browser submitted a form: Chromium applies the policy of its page to the next redirects."""
        return self.request.method == "POST" and self.request.headers.get("Sec-Fetch-Mode") == "navigate"

    def is_cross_site(self) -> bool:
        """Return whether another site made this request, by Fetch Metadata, else by Origin or Referer.

        Hosts of one registrable domain are the same site. Without Fetch Metadata only origins are known, and neither
        header is sent with a GET from a page with the referrer policy no-referrer.
        """
        site = self.request.headers.get("Sec-Fetch-Site")
        if site is not None:
            return site == "cross-site"
        base_url = self.addresses.base_url(self.request)
        referrer = self.request.headers.get("Referer", base_url)
        return self.is_cross_origin() or not f"{referrer}/".startswith(f"{base_url}/")

    def refuse(self, error: ServiceError) -> None:
        """Send the OAuth error JSON, with the challenge that a 401 requires."""
        failure = oauth_error(error)
        headers = dict(NO_CACHE)
        if (challenge := self.challenge(failure)) is not None:
            headers["WWW-Authenticate"] = challenge
        if isinstance(failure, UseDpopNonce):
            headers |= self.nonce_headers(failure.nonce)
        self.send(Reply(error_body(failure), failure.status, headers))

    def nonce_headers(self, nonce: str) -> dict[str, str]:
        """Return the header with a nonce (RFC 9449 section 8), exposed to scripts if CORS allows them."""
        headers = {"DPoP-Nonce": nonce}
        if "Access-Control-Allow-Origin" in self.cross_origin_headers:
            exposed = self.cross_origin_headers.get("Access-Control-Expose-Headers")
            headers["Access-Control-Expose-Headers"] = ", ".join(filter(None, (exposed, "DPoP-Nonce")))
        return headers

    def challenge(self, failure: OAuth2Error) -> str | None:
        """Return the WWW-Authenticate challenge of an error, if it requires one (RFC 9110 section 11.6.1)."""
        if isinstance(failure, InvalidClient):
            return 'Basic realm="oauth2"'
        if isinstance(failure, InvalidToken | InvalidDpopProofAtResource):
            return "Bearer" + self.challenge_error(failure)
        return None

    def challenge_error(self, failure: OAuth2Error) -> str:
        """Return the parameters of a challenge about its error; none for a request without a token (RFC 6750 3.1)."""
        if isinstance(failure, AccessTokenRequired):
            return ""
        return f' error="{failure.error}"{challenge_parameters(failure)}'

    def fail(self) -> None:
        """Send a generic error for an unexpected exception."""
        self.refuse(ServerError("unknown", "The service could not answer this request."))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Send a malformed request as invalid_request (RFC 6749 section 5.2)."""
        if status_code == InvalidRequest.status:
            self.refuse(InvalidRequest("unknown", "The request cannot be read: its path or its form is malformed."))
        else:
            super().write_error(status_code, **kwargs)


class PageHandler(OAuth2Handler):
    """An endpoint for browsers: errors as a page, or as JSON for a caller that prefers it.

    Forms of other sites may post here, but their scripts may not read the response.
    """

    cross_origin = CrossOriginAccess.BY_PAGE
    advice: ClassVar[str] = "error.application"
    """The key of the page text that advises the user on the error page."""

    async def open_call(self, declared: Endpoint) -> Call:
        """Open the call with the cookies by which the browser is known."""
        call = await super().open_call(declared)
        prefixes = {self.cookie_name(prefix): prefix for prefix in _DEVICE_COOKIES}
        devices = {
            prefix + name.removeprefix(received): morsel.value
            for name, morsel in self.cookies.items()
            for received, prefix in prefixes.items()
            if name.startswith(received)
        }
        return dataclasses.replace(call, devices=devices)

    def passkey_cookies(self, cookie: known_browsers.BrowserCookie | None) -> list[Morsel[str]]:
        """Return the cookie of a browser with passkeys to set, if there is one."""
        return [] if cookie is None else [self.new_cookie(cookie.name, cookie.value, cookie.max_age_seconds)]

    def refuse(self, error: ServiceError) -> None:
        """Send the error page; nothing is redirected."""
        failure = oauth_error(error)
        reply = render.error(error_body(failure), failure.status, self.advice, page_theme.of_request(self))
        if self.prefers_json():
            reply = Reply(error_body(failure), failure.status)
        challenge = self.challenge(failure) if isinstance(failure, InvalidToken) else None
        headers = reply.headers if challenge is None else {**reply.headers, "WWW-Authenticate": challenge}
        self.send(dataclasses.replace(reply, headers=headers))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Send a page to a browser for a method that the path does not have."""
        is_known = self.request.method in self.SUPPORTED_METHODS
        if status_code == MethodNotAllowed.status and is_known and self.prefers_html():
            page = render.status_page(status_code, page_theme.of_request(self))
            self.send(dataclasses.replace(page, headers={**page.headers, "Allow": self.allow()}))
        else:
            super().write_error(status_code, **kwargs)

    def request_parameters(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters of an authorization request that forms and links of pages repeat."""
        parameters = request_sources.form_parameters(given)
        names = self.services.schemas[AUTHORIZE_REQUEST].schema["properties"]
        return {name: parameters[name] for name in names if name in parameters}

    def prefers_html(self) -> bool:
        """Return whether the request names HTML, as browsers do for pages."""
        return "text/html" in self.request.headers.get("Accept", "")

    def prefers_json(self) -> bool:
        """Return whether the request accepts application/json but not HTML."""
        accept = self.request.headers.get("Accept", "")
        return "application/json" in accept and "text/html" not in accept


def tenant_routes(paths: Iterable[tuple[str, type[OAuth2Handler]]]) -> list[Route]:
    """Return the routes of paths and handlers, each also under the id of a tenant."""
    return [Route(prefix + path, handler) for path, handler in paths for prefix in ("", "/{tenant_id}")]


def challenge_parameters(failure: OAuth2Error) -> str:
    """Return what a challenge requires of the next login, as further parameters (RFC 9470 section 3)."""
    if not isinstance(failure, InsufficientUserAuthentication):
        return ""
    return "".join(f', {name}="{value}"' for name, value in failure.challenge.items())


def oauth_error(error: ServiceError) -> OAuth2Error:
    """Return the OAuth error for any service error."""
    if isinstance(error, OAuth2Error):
        return error
    if isinstance(error, NotLicensed):
        return FeatureOff("not_licensed", error.message)
    if error.status >= 500:
        failure: OAuth2Error = ServerError("unknown", "The service cannot answer this request now.")
    else:
        failure = InvalidRequest("unknown", error.message or "The request is invalid.")
    if error.status in {TooLarge.status, 404, 503, LambdaFailed.status}:
        failure.status = error.status
    return failure


def error_body(error: OAuth2Error) -> dict[str, Any]:
    """Return the OAuth error JSON. Descriptions are ASCII without quotes and backslashes (RFC 6749 section 5.2)."""
    body: dict[str, Any] = {"error": error.error}
    if error.reason is not None:
        body["error_reason"] = error.reason
    return {**body, "error_description": sanitize_description(error.description), **error.extra}


def sanitize_description(text: str) -> str:
    """Replace the characters that an error_description must not contain."""
    return _UNDESCRIBABLE.sub("?", text.replace('"', "'"))


def read_parameters(arguments: Values, schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a request that a file of schemas/oauth2/ declares (RFC 6749 sections 3.1 and 3.2).

    Each may occur once; empty ones count as absent, unknown ones are ignored. `x-blank-counts` marks one that counts as
    present if it is empty: a blank secret is an incorrect one. `x-repeatable` marks one that may be repeated (RFC 8707
    section 2); its values, which must not contain spaces, are joined by spaces. `patternProperties` are parameters with
    a variable name.

    Raises InvalidRequest for one that is repeated or not UTF-8.
    """
    found: dict[str, str] = {}
    for name, declared in _declared_parameters(arguments, schema):
        values = [_text(name, raw) for raw in arguments.get(name, ())]
        if declared.get("x-repeatable"):
            values = [" ".join(value for value in values if value)]
        if len(values) > 1:
            raise InvalidRequest("unknown", f"The parameter {name} must not be repeated.")
        if values and (values[0] or declared.get("x-blank-counts")):
            found[name] = values[0]
    return found


def _declared_parameters(arguments: Values, schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from schema["properties"].items()
    for pattern, declared in schema.get("patternProperties", {}).items():
        yield from ((name, declared) for name in arguments if re.fullmatch(pattern, name))


def _text(name: str, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest("unknown", f"The parameter {name} is not UTF-8.") from error
    if "\x00" in text:
        raise InvalidRequest("unknown", f"The parameter {name} contains a NUL character.")
    return text
