"""What all pages outside of a login share: whose they are, how they look, and the way back to a login."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping, Sequence
from http.cookies import Morsel
from typing import Any, ClassVar, Final

from identity.call import Call, Document
from identity.domain.two_factor import two_factor
from identity.errors import FieldError
from identity.ids import TenantId
from identity.operations.clients import clients, ip_access_lists
from identity.operations.clients.clients import Client
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, fields, page_theme, render
from identity.web.hosted.fields import Field, Form
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import PageHandler

REQUEST: Final = "oauth2/hosted.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class PageContext:
    """The tenant, and the application if one is named, of a page; `given` are the parameters of the request."""

    tenant: Document
    client: Client | None
    look: PageTheme
    given: Mapping[str, str]

    @property
    def application(self) -> Document | None:
        """The application, if one is named."""
        return None if self.client is None else self.client.application

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return TenantId(self.tenant["id"])

    @property
    def login(self) -> str:
        """The way to the login that brought the user here, or nothing."""
        return f"/oauth2/authorize?{self.query}" if "redirect_uri" in self.given and self.client is not None else ""

    @property
    def query(self) -> str:
        """What the next page is asked with."""
        return urllib.parse.urlencode(self.carried)

    @property
    def carried(self) -> dict[str, str]:
        """The parameters that pages hand on: what they are about, and the authorization request."""
        return dict(self.given)


class SelfServiceHandler(PageHandler):
    """A page outside of a login."""

    advice: ClassVar[str] = "The link that brought you here is not complete, or not one of ours."
    _issued: tuple[str, Morsel[str]] | None = None

    async def place(self, call: Call, given: Document, tenant: Document | None = None) -> PageContext:
        """Where a request stands: by the `tenant` of what it is about, else by what it names, else the default one.

        Raises InvalidRequest for a tenant or client that does not exist, and AddressRefusedError.
        """
        hints = self.tenant_hints(None if tenant is None else tenant["id"], {})
        if tenant is None:
            hints = self.tenant_hints(None, given)
        client = None
        if "client_id" in given:
            client = await clients.get_client(self.services, hints, given["client_id"])
            await ip_access_lists.require_address(self.services, client, call.origin.ip_address)
            tenant = client.tenant
        tenant = tenant or await clients.find_named_tenant(self.services, hints)
        tenant = tenant or await clients.get_default_tenant(self.services)
        application = None if client is None else client.application
        names = self.services.schemas[REQUEST].schema["properties"]
        kept = {name: value for name, value in given.items() if name in names}
        return PageContext(tenant, client, await page_theme.load(self, tenant, application, given), kept)

    def issued(self) -> tuple[str, Morsel[str]]:
        """The token of this browser's forms, and its cookie; the same for everything that one answer is made of."""
        if self._issued is None:
            self._issued = csrf.issue(self)
        return self._issued

    def form_page(self, place: PageContext, form: Form) -> Reply:
        """A page with a form, which carries the place and the token of this browser."""
        token, cookie = self.issued()
        hidden = [*place.carried.items(), *form.hidden, (csrf.FIELD, token)]
        form = dataclasses.replace(form, hidden=hidden, action=form.action or self.request.path)
        cookies = [cookie, *page_theme.locale_cookies(self, place.given)]
        return fields.page(form, place.look, redirect_uri=place.given.get("redirect_uri"), cookies=cookies)

    def challenge_page(self, place: PageContext, methods: Sequence[Document], message: str, *, is_sent: bool) -> Reply:
        """The question for a second factor; `methods` as they may be shown. A code is sent when a button is pressed."""
        look = place.look
        sendable = [method for method in methods if method["method"] in two_factor.ADDRESS_MEMBERS]
        buttons = [
            (
                look.fill("twoFactor.send", method[two_factor.ADDRESS_MEMBERS[method["method"]]]),
                "methodId",
                method["id"],
            )
            for method in sendable
        ]
        is_wrong = message == "twoFactor.wrong"
        errors = [FieldError.of("invalid", "code", look[message])] if is_wrong else []
        form = Form(
            title=look["twoFactor.title"],
            heading=look["twoFactor.heading"],
            lead=look["twoFactor.sent" if is_sent else "twoFactor.lead"],
            submit=look["twoFactor.submit"],
            fields=fields.with_errors([Field("code", look["twoFactor.code"], "text", "one-time-code")], errors, look),
            message=look[message] if message and not is_wrong else "",
            buttons=buttons,
        )
        return csrf.with_status(self.form_page(place, form), message)

    def notice(
        self,
        place: PageContext,
        key: str,
        *,
        links: Sequence[tuple[str, str]] = (),
        cookies: Sequence[Morsel[str]] = (),
        **values: Any,
    ) -> Reply:
        """A page that says something: the texts `<key>.title`, `.heading` and `.text`; the first link is a button."""
        look = place.look
        shown = {"title": look[f"{key}.title"], "heading": look[f"{key}.heading"], "text": look[f"{key}.text"]}
        return render.form("notice.html", {**shown, "links": list(links), **values}, look, cookies=cookies)

    def moved(self, path: str, place: PageContext, *cookies: Morsel[str]) -> Reply:
        """The way to another page of ours, about the same place."""
        location = f"{path}?{place.query}" if place.carried else path
        return Reply(status=302, headers={"Location": location}, cookies=list(cookies))
