"""The administrators' page in a real browser: it does what the API does, with the key that was entered, and no more."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests.conftest import SUPER_KEY
from tests.hosted.chromium import Chromium
from tests.receiver import until


async def says(chromium: Chromium, text: str) -> None:
    async def is_said() -> bool:
        return text in await chromium.text()

    await until(is_said)


async def connect(chromium: Chromium, service: app.Service, key: str = SUPER_KEY) -> None:
    await chromium.go(f"{service.base_url}/admin")
    await chromium.run("window.confirm = () => true")
    await chromium.type("#key", key)
    await chromium.click("#connect button")


async def choose(chromium: Chromium, title: str) -> None:
    await chromium.run(
        "[...document.querySelectorAll('#kinds button')].find(b => b.textContent === arguments[0]).click()", title
    )


async def fill_in(chromium: Chromium, document: object) -> None:
    await chromium.run("document.getElementById('json').value = arguments[0]", json.dumps(document))


async def open_only(chromium: Chromium, label: str) -> None:
    """Open the object of this name, once it is the only one in the list."""

    async def is_alone() -> bool:
        labels = await chromium.run("return [...document.querySelectorAll('#rows button')].map(b => b.textContent)")
        return bool(labels == [label])

    await until(is_alone)
    # The title may be right already, from before: only the one that comes after the click counts.
    await chromium.run("document.getElementById('detail-title').textContent = ''")
    await chromium.run("document.querySelector('#rows button').click()")
    await until(
        lambda: chromium.run("return document.getElementById('detail-title').textContent === arguments[0]", label)
    )


@pytest.mark.requirement("oauth-12-23")
async def test_object_is_made_found_changed_and_deleted(
    chromium: Chromium, service: app.Service, api: httpx.AsyncClient
) -> None:
    await connect(chromium, service)
    await says(chromium, "in all")
    await choose(chromium, "Webhooks")
    await says(chromium, "Webhooks")
    await chromium.click("#new")
    url = f"https://hooks.example.com/{new_id()}"
    await fill_in(chromium, {"url": url, "connectTimeout": 1000, "readTimeout": 2000})
    await chromium.click("#save")
    await says(chromium, "Saved.")
    made = (await api.get("/api/webhook/search", params={"url": url})).json()["webhooks"]
    assert [webhook["url"] for webhook in made] == [url]
    await chromium.type("#term", url)
    await chromium.click("#search button")
    await open_only(chromium, url)
    changed = json.loads(str(await chromium.run("return document.getElementById('json').value")))
    await fill_in(chromium, {**changed, "description": "changed on the page"})
    await chromium.click("#save")
    await says(chromium, "Saved.")
    assert (await api.get(f"/api/webhook/{made[0]['id']}")).json()["webhook"]["description"] == "changed on the page"
    await chromium.click("#delete")
    await says(chromium, "Done.")
    assert (await api.get(f"/api/webhook/{made[0]['id']}")).status_code == 404


async def test_saving_a_tenant_leaves_its_webhooks_alone(
    chromium: Chromium, service: app.Service, api: httpx.AsyncClient, tenant: dict[str, Any]
) -> None:
    webhook = {"url": "https://hooks.example.com/", "connectTimeout": 1, "readTimeout": 1, "tenantIds": [tenant["id"]]}
    webhook_id = (await api.post("/api/webhook", json={"webhook": webhook})).json()["webhook"]["id"]
    await connect(chromium, service)
    await says(chromium, "in all")
    await chromium.type("#term", tenant["name"])
    await chromium.click("#search button")
    await open_only(chromium, tenant["name"])
    await chromium.click("#save")
    await says(chromium, "Saved.")
    assert (await api.get(f"/api/webhook/{webhook_id}")).json()["webhook"]["tenantIds"] == [tenant["id"]]


async def test_refusal_is_shown_with_every_field_error(chromium: Chromium, service: app.Service) -> None:
    await connect(chromium, service)
    await says(chromium, "in all")
    await choose(chromium, "Webhooks")
    await chromium.click("#new")
    await fill_in(chromium, {})
    await chromium.click("#save")
    await says(chromium, "[blank]webhook.url")
    await says(chromium, "[missing]webhook.readTimeout")


@pytest.mark.parametrize("kind", ["Applications", "Users", "Keys", "Access lists"])
async def test_every_kind_is_listed(chromium: Chromium, service: app.Service, kind: str) -> None:
    await connect(chromium, service)
    await says(chromium, "in all")
    await choose(chromium, kind)
    await says(chromium, "in all")
    assert await chromium.run("return document.getElementById('list-title').textContent") == kind
    assert await chromium.run("return document.getElementById('errors').children.length") == 0


async def test_wrong_key_shows_nothing(chromium: Chromium, service: app.Service) -> None:
    await connect(chromium, service, "no such key")
    await says(chromium, "The key is not valid")
    assert await chromium.run("return document.getElementById('work').hidden") is True


async def test_object_with_markup_in_its_name_is_only_text(
    chromium: Chromium, service: app.Service, api: httpx.AsyncClient
) -> None:
    name = f"<img src=x onerror=document.title='caught'>{new_id()}"
    assert (await api.post("/api/application", json={"application": {"name": name}})).status_code == 200
    await connect(chromium, service)
    await says(chromium, "in all")
    await choose(chromium, "Applications")
    await says(chromium, "<img src=x")
    assert await chromium.run("return document.title") == "Administration"


@pytest.mark.requirement("oauth-12-23")
async def test_page_runs_nothing_but_its_own_files(http: httpx.AsyncClient) -> None:
    answer = await http.get("/admin")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert (await http.get("/admin/admin.js")).headers["Content-Type"].startswith("text/javascript")
    assert (await http.get("/admin/../app.py")).status_code == 404
    assert (await http.get("/admin/pages.py")).status_code == 404


async def test_page_fits_a_narrow_window(chromium: Chromium, service: app.Service) -> None:
    await chromium.look(320, "dark")
    await connect(chromium, service)
    await says(chromium, "in all")
    assert await chromium.run("return document.documentElement.scrollWidth <= 320")
