"""Why requests of clients are refused: the recent ones of an application, or one that is pasted."""

from __future__ import annotations

import base64
import re
import shlex
import urllib.parse
from typing import Final

from identity.call import Call
from identity.ids import TenantId, parse_id
from identity.operations.pages import refusals
from identity.operations.pages.refusals import Diagnosis
from identity.web.base_handlers import Route
from identity.web.console.handlers import ConsoleHandler
from identity.web.console.resource_handlers import ResourceHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_CHARACTERS: Final = 16_384
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
        """Show the form."""
        return self.refusals_page("", None)

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def post(self, call: Call) -> Reply:
        """Check the request. It is not stored."""
        text = self.field("request").strip()[:_CHARACTERS]
        parameters, header = read(text)
        client_id = parse_id(parameters.get("client_id", "")) or parse_id(client_of(header))
        application = await self.find_json(f"/api/application/{client_id}") if client_id else {}
        if not application:
            return self.refusals_page(text, None, "No application that you may see has this client_id.")
        if "grant_type" in parameters:
            found = await refusals.of_token_request(self.services, call, header, parameters)
        else:
            found = await refusals.of_authorization_request(self.services, call, parameters)
        return self.refusals_page(text, found, application_path=f"/admin/applications/{client_id}")

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
        """Show them, newest first, with advice."""
        document = await self.load(object_id)
        found = await self.services.logs.refused_requests.find(TenantId(document["tenantId"]), document["id"])
        refused = [{**entry, "advice": _ADVICE.get(entry["reason"], "")} for entry in found]
        return self.object_page("refused.html", document, "Refusals", refused=refused)


def read(text: str) -> tuple[dict[str, str], str]:
    """Return the parameters of a pasted request, and its Authorization header.

    The request is a URL, a query or form, or a curl command.
    """
    if text.startswith("curl "):
        return _of_curl(text)
    query = text.partition("?")[2] if re.match(r"(GET |POST )?(https?:|/)", text) else text
    query = query.partition("#")[0].partition(" ")[0]
    return dict(urllib.parse.parse_qsl("&".join(query.split()))), ""


def _of_curl(text: str) -> tuple[dict[str, str], str]:
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError:
        return {}, ""
    parameters: dict[str, str] = {}
    header = ""
    for option, value in zip(words, [*words[1:], ""], strict=True):
        if option in {"-d", "--data", "--data-urlencode", "--data-raw"}:
            parameters |= dict(urllib.parse.parse_qsl(value))
        elif option in {"-H", "--header"} and value.lower().startswith("authorization:"):
            header = value.partition(":")[2].strip()
        elif option in {"-u", "--user"}:
            header = _basic(value)
        elif option.startswith(("http://", "https://")) and "?" in option:
            parameters |= dict(urllib.parse.parse_qsl(option.partition("?")[2]))
    return parameters, header


def _basic(credentials: str) -> str:
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


def client_of(header: str) -> str:
    """Return the client id of a Basic header; empty without one."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return urllib.parse.unquote(base64.b64decode(value, validate=True).decode().partition(":")[0])
    except ValueError:
        return ""


ROUTES = [
    Route("/admin/refusals", RefusalsHandler),
    Route("/admin/applications/{object_id}/refused", RecentRefusalsHandler),
]
