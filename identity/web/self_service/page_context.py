"""Base of the pages outside a login: their tenant, application and theme, and the link back to a login."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from identity.call import Call, Document
from identity.ids import TenantId
from identity.operations.clients import clients, ip_access_lists
from identity.web.endpoint import Reply
from identity.web.hosted import fields, page_theme, render
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import PageHandler

REQUEST: Final = "oauth2/hosted.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class PageContext:
    """The tenant of a page, and its application if the request names one.

    `parameters` are passed on from page to page: what the page is about, and the authorization request.
    """

    tenant: Document
    client: clients.Client | None
    theme: PageTheme
    parameters: Mapping[str, str]

    @property
    def application(self) -> Document | None:
        """The application, if the request names one."""
        return None if self.client is None else self.client.application

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return TenantId(self.tenant["id"])

    @property
    def login_url(self) -> str:
        """The URL of the login that led to the page; empty if there was none."""
        return self.url("/oauth2/authorize") if "redirect_uri" in self.parameters and self.client is not None else ""

    def login_links(self, text: str) -> list[tuple[str, str]]:
        """Return the link to the login under this text, if there is one."""
        return [(self.theme[text], self.login_url)] if self.login_url else []

    def url(self, path: str, **more: str) -> str:
        """Return the URL of another page with the same parameters."""
        query = urllib.parse.urlencode({**self.parameters, **more})
        return f"{path}?{query}" if query else path


class SelfServiceHandler(PageHandler):
    """A page outside a login."""

    advice: ClassVar[str] = "error.link"

    async def load_context(self, call: Call, given: Document, tenant: Document | None = None) -> PageContext:
        """Return the context of a request, in `tenant` if it is known already, else the one named, else the default.

        Raises InvalidRequest for an unknown tenant or client, and AddressRefusedError.
        """
        hints = self.tenant_hints(None, given) if tenant is None else self.tenant_hints(tenant["id"], {})
        client = None
        if "client_id" in given:
            client = await clients.get_client(self.services, hints, given["client_id"])
            await ip_access_lists.require_address(self.services, client, call.origin.ip_address)
            tenant = client.tenant
        tenant = tenant or await clients.find_named_tenant(self.services, hints)
        tenant = tenant or await clients.get_default_tenant(self.services)
        application = None if client is None else client.application
        names = self.services.schemas[REQUEST].schema["properties"]
        parameters = {name: value for name, value in given.items() if name in names}
        return PageContext(tenant, client, await page_theme.load(self, tenant, application, given), parameters)

    def form_page(self, context: PageContext, form: fields.Form, message: str = "") -> Reply:
        """Return a page with a form that submits the context; `message` is the key of a page text."""
        form = dataclasses.replace(form, hidden=[*context.parameters.items(), *form.hidden])
        redirect_uri = context.parameters.get("redirect_uri")
        return fields.page(self, form, context.theme, message=message, redirect_uri=redirect_uri)

    def notice(self, context: PageContext, key: str, links: Sequence[tuple[str, str]] = ()) -> Reply:
        """Return a page with the texts `<key>.title`, `.heading` and `.text`; the first link is a button."""
        return render.notice(key, context.theme, links)
