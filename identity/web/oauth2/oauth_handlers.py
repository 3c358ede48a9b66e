"""The handler families of the OAuth endpoints: OAuth errors as JSON for clients, as a page for people."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, ClassVar, Final

from identity.call import Call, Document
from identity.domain.clients import dpop_proofs as dpop_rules
from identity.errors import (
    FeatureOff,
    InvalidClient,
    InvalidDpopProofAtResource,
    InvalidRequest,
    InvalidToken,
    LambdaFailed,
    NotLicensed,
    OAuth2Error,
    ServerError,
    ServiceError,
    TooLarge,
    UseDpopNonce,
)
from identity.operations.clients import client_authentication, dpop_proofs
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.clients.clients import TenantHints
from identity.operations.entities import entity_clients
from identity.operations.entities.entity_clients import EntityClient
from identity.operations.grants import client_credentials
from identity.operations.login import known_devices
from identity.web.base_handlers import BaseHandler
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Endpoint, Reply
from identity.web.hosted import render
from identity.web.oauth2 import parameters

FORM = "application/x-www-form-urlencoded"

PAGE_OR_REDIRECT: Final = {200: "text/html", 302: None}
"""What browsers are answered with."""
_UNDESCRIBABLE = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


class OAuth2Handler(BaseHandler):
    """Form in, JSON out; failures as the OAuth error JSON (RFC 6749 section 5.2)."""

    uuid_paths = False

    def read_body(self, declared: Endpoint) -> dict[str, Any]:
        """The form, for a method that declares one. Raises InvalidRequest."""
        return super().read_body(declared) if declared.form is None else {"form": self.form(declared.form)}

    def form(self, schema: str) -> Document:
        """The parameters in the body; the query is never read. Raises InvalidRequest."""
        if self.content_type() != FORM:
            raise InvalidRequest("unknown", f"The Content-Type must be {FORM}.")
        return parameters.read(self.request.body_arguments, self.services.schemas[schema].schema)

    def parameters(self, schema: str) -> Document:
        """The parameters in the query. Raises InvalidRequest, and LookupError for a schema that is not declared."""
        if schema != self.declared.query:
            raise LookupError(f"the endpoint does not declare the query parameters of {schema}")
        return parameters.read(self.request.query_arguments, self.services.schemas[schema].schema)

    def tenant_hints(self, path: str | None, given: Document) -> TenantHints:
        """Where a request may name its tenant."""
        return TenantHints(path, given.get("tenantId"), self.request.headers.get("X-FusionAuth-TenantId", "").strip())

    async def identified(self, form: Document, path_tenant_id: str | None) -> IdentifiedClient:
        """The client that a request speaks for, not yet authenticated. Raises InvalidRequest and InvalidClient."""
        authorization = self.request.headers.get("Authorization", "")
        hints = self.tenant_hints(path_tenant_id, form)
        base_url = self.addresses.base_url(self.request)
        return await client_authentication.identify(self.services, authorization, form, hints, base_url)

    async def identified_entity(self, form: Document, path_tenant_id: str | None) -> EntityClient | None:
        """The entity that wants a token of its own, authenticated; None for any other client id.

        Raises InvalidRequest, InvalidClient and NotLicensed.
        """
        authorization = self.request.headers.get("Authorization", "")
        hints = self.tenant_hints(path_tenant_id, form)
        base_url = self.addresses.base_url(self.request)
        return await client_credentials.identify(self.services, authorization, form, hints, base_url)

    async def identified_any(self, form: Document, path_tenant_id: str | None) -> IdentifiedClient | EntityClient:
        """As `identified`, where the client may be an entity too, which is authenticated."""
        authorization = self.request.headers.get("Authorization", "")
        hints = self.tenant_hints(path_tenant_id, form)
        base_url = self.addresses.base_url(self.request)
        return await entity_clients.identify_any(self.services, authorization, form, hints, base_url)

    def proof(self, call: Call) -> dpop_proofs.PresentedDpopProof | None:
        """The DPoP proofs of this request, or None when there is no such header (RFC 9449 section 4.1)."""
        return self.presented(call) if dpop_rules.SCHEME in self.request.headers else None

    def presented(self, call: Call) -> dpop_proofs.PresentedDpopProof:
        """What this request shows of a key, be it nothing."""
        proofs = tuple(self.request.headers.get_list(dpop_rules.SCHEME))
        return dpop_proofs.PresentedDpopProof(
            proofs, self.request.method or "", call.origin.base_url + self.request.path
        )

    def authorization(self) -> tuple[str, str | None]:
        """The scheme of the Authorization header, in lower case, and what comes after it."""
        scheme, _, token = self.request.headers.get("Authorization", "").strip().partition(" ")
        return scheme.lower(), token.strip() or None

    def bearer_token(self) -> str | None:
        """The token of the Authorization header, or None for another scheme or none."""
        scheme, token = self.authorization()
        return token if scheme == "bearer" else None

    def cookie(self, name: str) -> str:
        """The value of a cookie, or nothing."""
        return str(self.received_cookie(name) or "")

    def is_from_elsewhere(self) -> bool:
        """Whether a browser says that another site made this request; ours send no referrer, and so the origin null."""
        site = self.request.headers.get("Sec-Fetch-Site")
        if site is not None:
            return site not in {"same-origin", "none"}
        origin = self.request.headers.get("Origin", "null")
        return origin not in {"null", self.addresses.base_url(self.request)}

    def is_cross_site(self) -> bool:
        """Whether another site made this request, by Fetch Metadata, else by Origin or Referer.

        Other hosts of the same registrable domain are the same site. A browser without Fetch Metadata tells origins
        only, and sends neither header with a GET from a page with the referrer policy no-referrer.
        """
        site = self.request.headers.get("Sec-Fetch-Site")
        if site is not None:
            return site == "cross-site"
        base_url = self.addresses.base_url(self.request)
        referrer = self.request.headers.get("Referer", base_url)
        return self.is_from_elsewhere() or not f"{referrer}/".startswith(f"{base_url}/")

    def refuse(self, error: ServiceError) -> None:
        """The OAuth error JSON, with the challenge that a 401 has to carry."""
        failure = oauth_error(error)
        headers = {"Pragma": "no-cache"}
        if (challenge := self.challenge(failure)) is not None:
            headers["WWW-Authenticate"] = challenge
        if isinstance(failure, UseDpopNonce):
            headers |= self.nonce_headers(failure.nonce)
        self.send(Reply(error_body(failure), failure.status, headers))

    def nonce_headers(self, nonce: str) -> dict[str, str]:
        """The nonce that a client shall use (RFC 9449 section 8), also for the scripts of a page that may call us."""
        headers = {"DPoP-Nonce": nonce}
        if "Access-Control-Allow-Origin" in self.cross_origin_headers:
            exposed = self.cross_origin_headers.get("Access-Control-Expose-Headers")
            headers["Access-Control-Expose-Headers"] = ", ".join(filter(None, (exposed, "DPoP-Nonce")))
        return headers

    def challenge(self, failure: OAuth2Error) -> str | None:
        """How to authenticate, for the refusals that have to say so (RFC 9110 section 11.6.1)."""
        if isinstance(failure, InvalidClient):
            return 'Basic realm="oauth2"'
        if isinstance(failure, InvalidToken | InvalidDpopProofAtResource):
            return "Bearer" if failure.reason == "access_token_required" else f'Bearer error="{failure.error}"'
        return None

    def fail(self) -> None:
        """An unexpected failure, which says nothing of itself."""
        self.refuse(ServerError("unknown", "The service could not answer this request."))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """As elsewhere, but what cannot be read is an invalid_request like any other (RFC 6749 section 5.2)."""
        if status_code == InvalidRequest.status:
            self.refuse(InvalidRequest("unknown", "The request cannot be read: its path or its form is malformed."))
        else:
            super().write_error(status_code, **kwargs)


class PageHandler(OAuth2Handler):
    """For browsers: failures as a page, or as bare JSON for a caller that prefers it.

    Forms of other sites are meant to arrive here, and no script of theirs may read what they get.
    """

    cross_origin = CrossOriginAccess.BY_PAGE
    advice: ClassVar[str] = "The application that sent you here has to correct this."
    """What the error page says that can be done."""

    async def open_call(self, declared: Endpoint) -> Call:
        """As elsewhere, with what the browser shows of the users it is known to."""
        call = await super().open_call(declared)
        prefix = self.cookie_name(known_devices.COOKIE_PREFIX)
        devices = {
            known_devices.COOKIE_PREFIX + name.removeprefix(prefix): morsel.value
            for name, morsel in self.cookies.items()
            if name.startswith(prefix)
        }
        return dataclasses.replace(call, devices=devices)

    def refuse(self, error: ServiceError) -> None:
        """The error page. Nothing is ever redirected from here."""
        failure = oauth_error(error)
        reply = render.error(error_body(failure), failure.status, self.advice)
        if self.prefers_json():
            reply = Reply(error_body(failure), failure.status)
        challenge = self.challenge(failure) if isinstance(failure, InvalidToken) else None
        headers = reply.headers if challenge is None else {**reply.headers, "WWW-Authenticate": challenge}
        self.send(dataclasses.replace(reply, headers=headers))

    def prefers_json(self) -> bool:
        """Whether the request names application/json and does not name HTML."""
        accept = self.request.headers.get("Accept", "")
        return "application/json" in accept and "text/html" not in accept


def oauth_error(error: ServiceError) -> OAuth2Error:
    """Any refusal as an error that these endpoints have."""
    if isinstance(error, OAuth2Error):
        return error
    if isinstance(error, NotLicensed):
        return FeatureOff("not_licensed", error.message)
    if error.status >= 500:
        failure: OAuth2Error = ServerError("unknown", "The service cannot answer this request now.")
    else:
        failure = InvalidRequest("unknown", error.message or "The request is not acceptable.")
    failure.status = (
        error.status if error.status in {TooLarge.status, 404, 503, LambdaFailed.status} else failure.status
    )
    return failure


def error_body(error: OAuth2Error) -> dict[str, Any]:
    """The OAuth error JSON; a description has no quote, no backslash, nothing beyond ASCII (RFC 6749 section 5.2)."""
    body: dict[str, Any] = {"error": error.error}
    if error.reason is not None:
        body["error_reason"] = error.reason
    return {**body, "error_description": described(error.description), **error.extra}


def described(text: str) -> str:
    """A text with everything replaced that an error_description must not hold."""
    return _UNDESCRIBABLE.sub("?", text.replace('"', "'"))
