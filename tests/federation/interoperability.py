"""A login through a foreign provider, from both sides: the journey that every provider has to pass."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from tests import relying_party
from tests.federation.conftest import Scenario
from tests.relying_party import REDIRECT_URI, RelyingParty

Document = dict[str, Any]
SECRET = "a client secret of 64 bytes, which is enough for each of the HMACs"
LOGOUT_CALLBACK = "/oauth2/logout/callback"

Fill = Callable[[httpx.Response, Document], Document]
"""(page of the provider, fields of its form) -> the fields to submit."""


@dataclasses.dataclass
class Journey:
    """An application of ours, one browser at both sides, and a provider with one client for each algorithm."""

    rp: RelyingParty
    scenario: Scenario
    browser: httpx.AsyncClient
    there: httpx.AsyncClient
    fill: Fill
    pages: list[str] = dataclasses.field(default_factory=list)
    """The pages on which the provider asked the user for something, during the last login."""

    async def configure(self, issuer: str, algorithm: str, **oauth2: Any) -> None:
        """Use the provider's client of an algorithm."""
        chosen = {"id_token_signed_response_alg": algorithm} if algorithm.startswith("HS") else {}
        settings = {"issuer": issuer, "client_id": algorithm, "client_secret": SECRET, "scope": "openid email"}
        await self.scenario.add_provider(
            type="OpenIDConnect", logoutAtProvider=True, debug=True, oauth2={**settings, **chosen, **oauth2}
        )

    async def log_in(self, **changes: str) -> Document:
        """Log in through the provider, and return the claims of our ID token."""
        wanted = {"idp_hint": self.scenario.provider["id"], "scope": "openid", **changes}
        left = await self.rp.authorize(self.browser, **wanted)
        returned = await self.browser.get(await self.follow(left.headers["Location"]))
        code = relying_party.response(returned)["code"]
        tokens = await self.rp.exchange(self.scenario.public, code)
        assert tokens.status_code == 200, tokens.text
        return relying_party.claims(tokens.json()["id_token"])

    async def log_out(self) -> str:
        """Log out at the application, and return where the browser ends."""
        query = {"client_id": self.rp.client_id, "post_logout_redirect_uri": REDIRECT_URI}
        left = await self.browser.get("/oauth2/logout", params=query)
        returned = await self.browser.get(await self.follow(left.headers["Location"]))
        assert returned.status_code == 302
        return str(returned.headers["Location"])

    async def follow(self, url: str) -> str:
        """Follow the provider's redirects and fill in its forms; return the URL of ours to which it returns."""
        self.pages.clear()
        own = str(self.browser.base_url)
        answer = await self.there.get(url)
        for _ in range(20):
            while answer.is_redirect:
                url = urllib.parse.urljoin(str(answer.url), answer.headers["Location"])
                if url.startswith(own):
                    return url
                answer = await self.there.get(url)
            assert answer.status_code == 200, (answer.status_code, answer.text)
            form = next(each for each in relying_party.page(answer).forms if each["fields"] or each["action"])
            self.pages.append(str(answer.url))
            data = self.fill(answer, dict(form["fields"]))
            answer = await self.there.post(urllib.parse.urljoin(str(answer.url), form["action"]), data=data)
        raise AssertionError("the provider shows page after page")


async def walk(
    journey: Journey, issuer: str, algorithm: str, rotate: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Log in with one algorithm, use the session, prompt again, and log out; after a rotation log in at once."""
    await journey.configure(issuer, algorithm)
    first = await journey.log_in()
    assert journey.pages, "the first login asks for credentials"
    journey.browser.cookies.delete("fusionauth.sso")
    again = await journey.log_in()
    assert not journey.pages, "the session at the provider suffices"
    assert again["sub"] == first["sub"]
    for prompt in ({"max_age": "0"}, {"prompt": "login"}):
        fresh = await journey.log_in(**prompt)
        assert journey.pages, prompt
        assert fresh["auth_time"] >= first["auth_time"]
    if rotate is not None:
        await rotate()
        assert (await journey.log_in(prompt="login"))["sub"] == first["sub"]
    assert await journey.log_out() == REDIRECT_URI
    await journey.log_in()
    assert journey.pages, "the session at the provider has ended"
