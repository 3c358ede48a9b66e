"""Random submissions of the forms of the console, by each of its roles."""

from __future__ import annotations

import dataclasses
import functools
import random
import re
import urllib.parse
from typing import Any, Final

import httpx
import tornado.web

from tests import openapi
from tests.boundary.callers import Caller
from tests.console import administrator
from tests.console.administrator import Page
from tests.fuzz.known_values import KnownValues

_NAMES: Final = {
    "api-keys": "apiKeyId", "entities": "entityId", "identity-providers": "identityProviderId",
    "ip-acls": "ipAccessControlListId", "ip-access-lists": "ipAccessControlListId", "lambdas": "lambdaId",
}  # fmt: skip
"""The names of the ids of screens whose paths are no plurals of them."""
_REPLACED_SHARE: Final = 0.3
_READ_SHARE: Final = 0.15
"""Pages without a form, such as exports, which may show secrets."""
_SKIPPED: Final = ("sign-out", "static", "callback")


@dataclasses.dataclass
class Forms:
    """The forms that each role may open, as far as they were tried."""

    closed: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    """(role, template) of pages that a role may not open."""

    async def submit(self, caller: Caller, known: KnownValues, rng: random.Random) -> tuple[str, httpx.Response] | None:
        """Open a random page of the console, and submit its form with some fields changed; None without a page."""
        assert caller.browser is not None
        if rng.random() < _READ_SHARE:
            template = rng.choice(templates(is_form=False))
            return f"page {template}", await self._open(caller, _path_of(template, known, rng))
        chance = rng.random()  # a sequence is the same again when fewer pages remain to be tried
        for template in rng.sample(templates(), len(templates())):
            if (caller.name, template) in self.closed:
                continue
            shown = await self._open(caller, _path_of(template, known, random.Random(f"{chance} {template}")))
            if shown.status_code == 403:
                self.closed.add((caller.name, template))
                continue
            if shown.status_code != 200:
                continue
            answer = await _submit(caller, shown, known, rng)
            if answer is not None:
                return f"form {template}", answer
        return None

    async def _open(self, caller: Caller, path: str) -> httpx.Response:
        """Open a page; sign in again if the session has ended or the login is too old."""
        assert caller.browser is not None
        shown = await caller.browser.http.get(path)
        if shown.is_redirect and "/oauth2/authorize" in shown.headers["Location"]:
            await caller.browser.sign_in(caller.email, administrator.QUIET)
            shown = await caller.browser.http.get(path)
        return shown


@functools.cache
def templates(*, is_form: bool = True) -> list[str]:
    """Return the templates of the pages of the console: those with a form, or the others."""
    found = set()
    for route in openapi.routes():
        if route.template.startswith("/admin") and not any(part in route.template for part in _SKIPPED):
            inherited = tornado.web.RequestHandler
            has_post = route.handler.post is not inherited.post
            if route.handler.get is not inherited.get and has_post == is_form:
                found.add(route.template)
    return sorted(found)


def _path_of(template: str, known: KnownValues, rng: random.Random) -> str:
    return re.sub(r"\{\w+\}", lambda _: _object_id(template, known, rng), template)


def _object_id(template: str, known: KnownValues, rng: random.Random) -> str:
    slug = template.split("/")[2]
    name = _NAMES.get(slug) or _camel(slug).removesuffix("s") + "Id"
    values = known.of(name)
    return str(rng.choice(values)) if values else "00000000-0000-4000-8000-00000000dead"


def _camel(slug: str) -> str:
    first, *others = slug.split("-")
    return first + "".join(part.capitalize() for part in others)


async def _submit(
    caller: Caller, shown: httpx.Response, known: KnownValues, rng: random.Random
) -> httpx.Response | None:
    """Submit a form of a page with some fields changed; None if the page has none."""
    assert caller.browser is not None
    page = Page(shown)
    forms = [form for form in page.forms if form["method"].lower() == "post" and "sign-out" not in form["action"]]
    if not forms:
        return None
    form = rng.choice(forms)
    data = {name: changed(name, value, known, rng) for name, value in form["fields"].items()}
    confirmations = [attributes["data-confirm"] for _, attributes in page.tags if "data-confirm" in attributes]
    if confirmations:
        data["name"] = confirmations[0]
    target = urllib.parse.urljoin(str(shown.url), form["action"] or str(shown.url))
    return await caller.browser.http.post(target, data=data)


def changed(name: str, value: Any, known: KnownValues, rng: random.Random) -> Any:
    """Return the value of a field: now and then an attack."""
    if name.endswith((".name", ".text")) and not value:
        return f"boundary {rng.randrange(2**32)}"
    if name == "csrf_token" or rng.random() > _REPLACED_SHARE:
        return value
    values = known.of(re.split(r"[.\[\]]", name.rstrip("]"))[-1])
    return str(rng.choice(values)) if values else value
