"""An administrator and a browser, for tests of the console."""

from __future__ import annotations

import dataclasses
import html.parser
import urllib.parse
from collections.abc import Mapping
from typing import Any

import httpx

from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.ids import new_id
from tests.conftest import DEFAULT_TENANT

PASSWORD = "correct horse battery"
QUIET = "/admin/refusals"
"""A page that every role may open and that reads no objects: the home page counts all those of the shared service."""


class Page(html.parser.HTMLParser):
    """A page as a browser sees it: its forms with every field, its links and its text."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.forms: list[dict[str, Any]] = []
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._textarea: str | None = None
        self._select: str | None = None
        self.feed(answer.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.tags.append((tag, given))
        if tag == "a":
            self.links.append(given.get("href", ""))
        elif tag == "form":
            self.forms.append({"action": given.get("action", ""), "method": given.get("method", "get"), "fields": {}})
        elif self.forms:
            self._field(tag, given, self.forms[-1]["fields"])

    def _field(self, tag: str, given: dict[str, str], fields: dict[str, Any]) -> None:
        name = given.get("name", "")
        if tag == "option" and self._select:
            if "selected" in given or self._select not in fields:
                fields[self._select] = given.get("value", "")
        elif tag == "select":
            self._select = name
        elif tag == "textarea":
            self._textarea, fields[name] = name, ""
        elif tag == "input" and given.get("type") in {"checkbox", "radio"}:
            if "checked" in given:
                fields[name] = [*fields.get(name, []), given.get("value", "on")]
        elif tag == "input" and name:
            fields[name] = given.get("value", "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._textarea is not None:
            fields = self.forms[-1]["fields"]
            fields[self._textarea] = fields[self._textarea].removeprefix("\n")
            self._textarea = None
        if tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._textarea is not None:
            self.forms[-1]["fields"][self._textarea] += data

    def form(self, action: str) -> dict[str, Any]:
        """The form with this action."""
        return next(form for form in self.forms if form["action"] == action)


@dataclasses.dataclass
class Browser:
    """A browser of one person: cookies, no redirects followed by itself."""

    http: httpx.AsyncClient

    async def open(self, path: str) -> httpx.Response:
        """A page, after all redirects; their last one is of this service."""
        return await self.follow(await self.http.get(path))

    async def follow(self, answer: httpx.Response) -> httpx.Response:
        while answer.is_redirect:
            answer = await self.http.get(urllib.parse.urljoin(str(answer.url), answer.headers["Location"]))
        return answer

    async def submit(self, answer: httpx.Response, action: str, **fields: Any) -> httpx.Response:
        """Submit the form of a page, with some fields changed; None leaves one out."""
        form = Page(answer).form(action)
        data = {name: value for name, value in {**form["fields"], **fields}.items() if value is not None}
        target = urllib.parse.urljoin(str(answer.url), action)
        return await self.http.post(target, data=data)

    async def csrf_token(self) -> str:
        """The token of the forms of this session."""
        return str(Page(await self.open(QUIET)).form("/admin/sign-out")["fields"]["csrf_token"])

    async def sign_in(self, email: str, path: str = "/admin", password: str = PASSWORD) -> httpx.Response:
        """Open a page of the console and log in at the login page that appears."""
        shown = await self.open(path)
        form = next(form for form in Page(shown).forms if "password" in form["fields"])
        data = {**form["fields"], "loginId": email, "password": password}
        answer = await self.http.post(urllib.parse.urljoin(str(shown.url), form["action"]), data=data)
        return await self.follow(answer)


async def make(
    api: httpx.AsyncClient, *roles: str, tenant_id: str = DEFAULT_TENANT, data: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A user of the default tenant with these roles of the administrators' application."""
    user = {"email": f"{new_id()}@example.com", "password": PASSWORD, "firstName": "Ada", "lastName": "Lovelace"}
    user |= {"encryptionScheme": "salted-hmac-sha256", "factor": 1}
    if data is None and "tenant-admin" in roles:
        data = {"tenantId": tenant_id}
    registration = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": list(roles), "data": dict(data or {})}
    answer = await api.post(
        "/api/user/registration",
        json={"user": user, "registration": registration},
        headers={"X-FusionAuth-TenantId": tenant_id},
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["user"])
