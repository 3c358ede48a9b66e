"""A browser that logs in at an identity provider through the hosted login page."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import TYPE_CHECKING, Any

import httpx

from tests import relying_party
from tests.fake_provider import FakeProvider
from tests.relying_party import RelyingParty

if TYPE_CHECKING:
    from tests.federation.conftest import Scenario

Document = dict[str, Any]
CALLBACK = "/oauth2/callback"
LINK_PAGE = "/oauth2/start-idp-link"


@dataclasses.dataclass
class Departure:
    """Where a browser was sent, and with what."""

    url: str
    parameters: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.parameters[name]


@dataclasses.dataclass
class Hosted:
    """An application whose users may log in at a fake provider, and one browser."""

    rp: RelyingParty
    scenario: Scenario
    fake: FakeProvider
    browser: httpx.AsyncClient
    usual_claims: Document | None = None

    @property
    def provider_id(self) -> str:
        return str(self.scenario.provider["id"])

    async def leave(self, browser: httpx.AsyncClient | None = None, **changes: str | None) -> Departure:
        """Go to the provider by idp_hint."""
        wanted = {"idp_hint": self.provider_id, **changes}
        return departure(await self.rp.authorize(browser or self.browser, **wanted))

    async def come_back(
        self, left: Departure, browser: httpx.AsyncClient | None = None, **changes: str | None
    ) -> httpx.Response:
        """Come back with a code; None leaves a parameter out.

        The fake provider's ID token has the right nonce, unless a test gave it claims of its own.
        """
        if self.fake.id_claims is self.usual_claims:
            self.usual_claims = self.fake.claims(nonce=left["nonce"]) if "nonce" in left.parameters else None
            self.fake.id_claims = self.usual_claims
        answer = {"code": "the-code", "state": left["state"], **changes}
        given = {name: value for name, value in answer.items() if value is not None}
        return await (browser or self.browser).get(CALLBACK, params=given)

    async def walk(self, **changes: str | None) -> httpx.Response:
        """Go to the provider and return."""
        return await self.come_back(await self.leave(**changes))

    async def claims(self, answer: httpx.Response) -> Document:
        """The claims of the access token that an authorization response is good for."""
        tokens = await self.rp.exchange(self.scenario.public, relying_party.response(answer)["code"])
        assert tokens.status_code == 200, tokens.text
        return relying_party.claims(tokens.json()["access_token"])

    async def event_logs(self, text: str) -> list[Document]:
        """The rows of the event log that have a text, the newest first."""
        answer = await self.rp.api.get("/api/system/event-log/search", params={"message": f"*{text}*"})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["eventLogs"])


def departure(answer: httpx.Response) -> Departure:
    """Where an answer sends the browser, by redirect or by form."""
    if answer.status_code == 200:
        form = relying_party.page(answer).forms[0]
        return Departure(form["action"], dict(form["fields"]))
    assert answer.status_code == 302, (answer.status_code, answer.text)
    url, _, query = answer.headers["Location"].partition("?")
    pairs = urllib.parse.parse_qsl(query, strict_parsing=True)
    assert len(pairs) == len(dict(pairs))
    return Departure(url, dict(pairs))
