"""`/admin/applications/<id>/connect`: what a program needs to use an application, with examples."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import jinja2

from identity.call import Call, Document
from identity.domain.clients.oauth_settings import client_id_of
from identity.web.base_handlers import Route
from identity.web.console.resource_handlers import ResourceHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_FOLDER: Final = Path(__file__).resolve().parent / "examples"
_LANGUAGES: Final[Mapping[str, str]] = {
    "curl.sh": "curl",
    "python.py": "Python (Authlib)",
    "node.mjs": "Node.js (openid-client)",
    "go.go": "Go (oauth2, go-oidc)",
    "java.java": "Java (Nimbus OAuth 2.0 SDK)",
    "spring.yaml": "Spring Boot (application.yaml)",
    "next.js": "Next.js (Auth.js)",
}


class ConnectHandler(ResourceHandler):
    """The settings of a client, and examples in several languages."""

    slug = "applications"
    section = "applications"

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the page."""
        document = await self.load(object_id)
        tenant = (await self.find_json(f"/api/tenant/{document['tenantId']}")).get("tenant", {})
        base_url = self.origin().base_url
        facts = {"Client id": client_id_of(document), "Issuer": tenant.get("issuer", base_url), "Endpoints": ""}
        prefix = (
            base_url
            if document["tenantId"] == self.services.runtime.default_tenant_id
            else (f"{base_url}/{document['tenantId']}")
        )
        facts |= {
            "Endpoints": f"{prefix}/.well-known/openid-configuration",
            "Redirect URLs": "\n".join(document["oauthConfiguration"]["authorizedRedirectURLs"]),
        }
        return self.object_page(
            "connect.html", document, "Connect", facts=facts, examples=list(examples(document, prefix, facts["Issuer"]))
        )


def examples(application: Document, base_url: str, issuer: str) -> Iterator[tuple[str, str]]:
    """Yield the examples with their languages."""
    oauth = application["oauthConfiguration"]
    redirect_urls = oauth["authorizedRedirectURLs"]
    values: dict[str, Any] = {
        "base_url": base_url,
        "client_id": client_id_of(application),
        "issuer": issuer,
        "redirect_uri": redirect_urls[0] if redirect_urls else "https://app.example.com/callback",
        "has_secret": oauth["clientAuthenticationPolicy"] == "Required",
    }
    for file, language in _LANGUAGES.items():
        yield language, _template(file).render(values)


@functools.cache
def _template(name: str) -> jinja2.Template:
    """Return an example; the page escapes it as a whole."""
    environment = jinja2.Environment(  # noqa: S701 (not HTML)
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False
    )
    environment.filters["quoted"] = quoted
    return environment.from_string((_FOLDER / f"{name}.txt").read_text("utf-8"))


def quoted(text: str) -> str:
    """Return a text as a literal in double quotes, which all of these languages understand."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`").replace("\n", " ")
    return f'"{escaped}"'


ROUTES = [Route("/admin/applications/{object_id}/connect", ConnectHandler)]
