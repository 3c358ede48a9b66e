"""Why requests of clients are refused: the recent ones of an application, or one that is pasted."""

from __future__ import annotations

import base64
import dataclasses
import re
import shlex
import urllib.parse
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.ids import TenantId
from identity.operations.clients import client_ids
from identity.operations.clients.dpop_proofs import PresentedDpopProof
from identity.operations.pages import refusals
from identity.operations.pages.refusals import ClientRequest, Diagnosis
from identity.web.base_handlers import Route
from identity.web.console.handlers import ConsoleHandler
from identity.web.console.resource_handlers import ResourceHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_CHARACTERS: Final = 16_384
_CREDENTIALS: Final = frozenset({"client_secret", "client_assertion"})
_ADVICE: Final = {
    "invalid_redirect_uri": "Add exactly this URL to the redirect URLs of the application, or correct the request.",
    "missing_redirect_uri": "Send the redirect_uri that is registered.",
    "invalid_client_id": "Compare the client_id with the id of the application, and the tenant with its tenant.",
    "grant_type_disabled": "Enable the grant in the settings of the application, or use another one.",
    "missing_code_challenge": "Send a code_challenge with the method S256: the application requires PKCE.",
    "invalid_pkce_code_challenge_method": "Use the method S256; plain is not supported.",
    "invalid_client_authentication_scheme": "Send the client secret in the way that the application expects.",
    "client_authentication_missing": "Send the client secret, or allow requests with PKCE to omit it.",
    "missing_client_secret": "Send the client secret, or change client authentication in the settings.",
    "invalid_client_authentication": "Compare the client secret with that on the page of the application.",
}


class RefusalsHandler(ConsoleHandler):
    """The form, and the answer for a request."""

    section = "refusals"

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show the form, with the request of a link."""
        return self.refusals_page(self.parameter("request")[:_CHARACTERS], None)

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def post(self, call: Call) -> Reply:
        """Check the request. It is not stored."""
        text = self.field("request").strip()[:_CHARACTERS]
        pasted = read_request(text)
        request = self.client_request(pasted)
        named = await client_ids.find_application(self.services, refusals.named_client(request))
        application = await self.find_json(f"/api/application/{named['id']}") if named else {}
        if named is None or not application:
            return self.refusals_page(text, None, "No application that you may see has this client_id.")
        if "grant_type" in request.form or pasted.url.endswith("/token"):
            found = await refusals.of_token_request(self.services, call, request)
        elif pasted.url.endswith("/par") or request.authorization or _CREDENTIALS & request.form.keys():
            found = await refusals.of_pushed_request(self.services, call, request)
        else:
            found = await refusals.of_authorization_request(self.services, call, request.form)
        return self.refusals_page(text, found, application_path=f"/admin/applications/{named['id']}")

    def client_request(self, pasted: PastedRequest) -> ClientRequest:
        """Return the request with its DPoP proof, which is for the URL that was pasted."""
        proof, url = pasted.headers.get("dpop"), pasted.url or "/oauth2/token"
        url = url if "://" in url else f"{self.origin().base_url}{url}"
        presented = None if proof is None else PresentedDpopProof((proof,), "POST", (url,))
        return ClientRequest(pasted.parameters, pasted.headers.get("authorization", ""), presented)

    def refusals_page(
        self, text: str, diagnosis: Diagnosis | None, message: str = "", application_path: str = ""
    ) -> Reply:
        """Return the page."""
        reason = "" if diagnosis is None or diagnosis.error is None else diagnosis.error.reason or ""
        return self.page(
            "refusals.html",
            title="Why was this refused?",
            text=text,
            diagnosis=diagnosis,
            reason=reason,
            advice=_ADVICE.get(reason, ""),
            message=message,
            application_path=application_path,
        )


class RecentRefusalsHandler(ResourceHandler):
    """`/admin/applications/<id>/refused`: the recent refused requests of a client."""

    slug = "applications"
    section = "applications"

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show them, newest first, with advice and the rows of the debug log."""
        document = await self.load(object_id)
        found = await self.services.logs.refused_requests.find(TenantId(document["tenantId"]), document["id"])
        refused = [{**entry, "advice": _ADVICE.get(entry["reason"], ""), "text": _text(entry)} for entry in found]
        search = {"type": "Debug", "message": document["id"], "numberOfResults": "10", "orderBy": "insertInstant DESC"}
        debug = (await self.find_json("/api/system/event-log/search", search)).get("eventLogs", [])
        return self.object_page("refused.html", document, "Refusals", refused=refused, debug=debug)


def _text(entry: Document) -> str:
    """Return the stored part of a refused request, as it can be pasted."""
    return f"{entry['path']}?{urllib.parse.urlencode(entry['parameters'])}"


_DATA: Final = frozenset({"-d", "--data", "--data-urlencode", "--data-raw"})
_REQUEST_LINE: Final = re.compile(r"(?:(?:GET|POST) )?((?:https?:/)?/\S*)")
_HEADERS: Final = frozenset({"authorization", "dpop"})


@dataclasses.dataclass(frozen=True, slots=True)
class PastedRequest:
    """The URL of a request as far as it was pasted, its parameters, and its headers Authorization and DPoP."""

    url: str = ""
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


def read_request(text: str) -> PastedRequest:
    """Return the parts of a pasted request; empty ones for anything else."""
    text = text.replace("\r\n", "\n")
    return _of_curl(text) if text.startswith("curl ") else _of_http(text)


def _of_http(text: str) -> PastedRequest:
    found = _REQUEST_LINE.match(text)
    if found is None:
        return PastedRequest(parameters=_parameters("&".join(text.split())))
    url, query = _split(found[1])
    head, _, body = text[found.end() :].partition("\n\n")
    lines = (line.partition(":") for line in head.split("\n"))
    headers = {name.strip().lower(): value.strip() for name, _, value in lines}
    parameters = _parameters(query) | _parameters("&".join(body.split()))
    return PastedRequest(url, parameters, {name: headers[name] for name in _HEADERS & headers.keys()})


def _of_curl(text: str) -> PastedRequest:
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError:
        return PastedRequest()
    url, parameters, headers = "", dict[str, str](), dict[str, str]()
    for option, value in zip(words, [*words[1:], ""], strict=True):
        if option in _DATA:
            parameters |= _parameters(value)
        elif option in {"-H", "--header"}:
            name, _, content = value.partition(":")
            headers |= {name.lower(): content.strip()} if name.lower() in _HEADERS else {}
        elif option in {"-u", "--user"}:
            headers["authorization"] = f"Basic {base64.b64encode(value.encode()).decode()}"
        elif option.startswith(("http://", "https://")):
            url, query = _split(option)
            parameters |= _parameters(query)
    return PastedRequest(url, parameters, headers)


def _split(url: str) -> tuple[str, str]:
    """Return a URL without its query, and the query."""
    path, _, query = url.partition("#")[0].partition("?")
    return path, query


def _parameters(text: str) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(text))


ROUTES = [
    Route("/admin/refusals", RefusalsHandler),
    Route("/admin/applications/{object_id}/refused", RecentRefusalsHandler),
]
