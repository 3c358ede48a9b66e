"""What the tests of the steps between credentials and response share: pages one after the other, and their mails."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from identity.ids import new_id
from tests.mailbox import Mailbox, receiving
from tests.relying_party import PASSWORD, RelyingParty, page


async def make_template(api: httpx.AsyncClient, text: str) -> str:
    """An email template of this text."""
    template = {
        "name": f"Template {new_id()}",
        "defaultSubject": "A message",
        "defaultTextTemplate": text,
        "defaultHtmlTemplate": "<p>Hello</p>",
    }
    made = await api.post("/api/email/template", json={"emailTemplate": template})
    assert made.status_code == 200, made.text
    return str(made.json()["emailTemplate"]["id"])


@asynccontextmanager
async def mailing(rp: RelyingParty, setting: str, text: str, **email: Any) -> AsyncIterator[Mailbox]:
    """Where the mails of the tenant go; `setting` names the template that has this text."""
    template_id = await make_template(rp.api, text)
    async with receiving() as box:
        await rp.configure_tenant(emailConfiguration=box.configuration(**{setting: template_id, **email}))
        yield box


async def newest(mailbox: Mailbox, count: int = 1) -> str:
    """The text of the newest mail, when there are so many."""
    return (await mailbox.wait_for(count))[-1].part("plain").strip()


async def log_in(rp: RelyingParty, browser: httpx.AsyncClient, **changes: str | None) -> httpx.Response:
    """Send the login form, and follow where it leads if that is a page of ours."""
    return await follow(browser, await rp.submit(browser, await rp.authorize(browser, **changes)))


async def follow(browser: httpx.AsyncClient, answer: httpx.Response) -> httpx.Response:
    """The page that a redirect leads to, as long as it is one of ours."""
    while answer.status_code == 302 and answer.headers["Location"].startswith("/"):
        answer = await browser.get(answer.headers["Location"])
    return answer


async def send(browser: httpx.AsyncClient, shown: httpx.Response, form: int = 0, **fields: str) -> httpx.Response:
    """Send a form of a page, and follow where it leads."""
    return await follow(browser, await post(browser, shown, form, **fields))


async def post(browser: httpx.AsyncClient, shown: httpx.Response, form: int = 0, **fields: str) -> httpx.Response:
    """Send a form of a page."""
    found = page(shown).forms[form]
    return await browser.post(found["action"], data={**found["fields"], **fields})


def path(answer: httpx.Response) -> str:
    """Where a redirect leads, or where an answer comes from."""
    url = answer.headers["Location"] if answer.status_code == 302 else str(answer.request.url)
    return urllib.parse.urlsplit(url).path


def says(answer: httpx.Response, text: str) -> bool:
    """Whether a page says something."""
    return text in " ".join(page(answer).text.split())


__all__ = ["PASSWORD", "follow", "log_in", "mailing", "make_template", "newest", "path", "post", "says", "send"]
