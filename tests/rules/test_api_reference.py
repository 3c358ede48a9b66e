"""`/api/docs`: complete, linked, and without scripts; names that generators of clients can use."""

from __future__ import annotations

import collections
import re
from typing import Any

import pytest

from tests import openapi
from tests.conftest import checking_client

SERVED = openapi.served()


async def page(service: Any, path: str) -> str:
    async with checking_client(service.base_url) as client:
        answer = await client.get(path)
    assert answer.status_code == 200, path
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"""<script|style=|\son\w+=|=["']https?://""", answer.text)
    return answer.text


@pytest.mark.requirement("operate-9")
async def test_index_lists_every_operation_and_schema(service):
    text = await page(service, "/api/docs")
    for path, method, _ in openapi.operations():
        assert f"<b>{method.upper()}</b> <code>{path}</code>" in text
    for name in SERVED["components"]["schemas"]:
        assert f'"/api/docs/schemas/{name}"' in text


@pytest.mark.requirement("operate-9")
async def test_page_of_a_tag_shows_parameters_bodies_and_responses(service):
    text = await page(service, "/api/docs/oauth2")
    section = text.partition('<section id="postOauth2Token">')[2].partition("</section>")[0]
    assert "application/x-www-form-urlencoded" in section
    assert '<a href="/api/docs/schemas/OAuth2TokenRequest">' in section
    assert "<dt>401</dt>" in section
    assert "&#34;grant_type&#34;: &#34;authorization_code&#34;" in section
    assert "&#34;token_type&#34;: &#34;Bearer&#34;" in section


@pytest.mark.requirement("operate-9")
async def test_every_link_of_the_reference_leads_to_a_page(service):
    tags = {tag["name"] for tag in SERVED["tags"]}
    linked: set[str] = set()
    for tag in sorted(tags):
        linked |= set(re.findall(r'href="(/api/docs[^"#]*)', await page(service, f"/api/docs/{tag}")))
    known = {f"/api/docs/{tag}" for tag in tags} | {"/api/docs", "/api/docs/reference.css"}
    assert linked - known <= {f"/api/docs/schemas/{name}" for name in SERVED["components"]["schemas"]}
    assert "lambda" in await page(service, "/api/docs/schemas/LambdaRequest")


@pytest.mark.requirement("operate-9")
@pytest.mark.parametrize("path", ["/api/docs/none", "/api/docs/schemas/None", "/api/docs/schemas/%3Cscript%3E"])
async def test_unknown_page_is_not_found(service, path):
    async with checking_client(service.base_url) as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    assert "<script>" not in answer.text


@pytest.mark.requirement("operate-9")
def test_names_of_operations_and_models_are_unique():
    """Generators ignore case and punctuation, and name models by `title` where there is one."""
    operations = collections.Counter(operation["operationId"].lower() for _, _, operation in openapi.operations())
    schemas = SERVED["components"]["schemas"]
    models = collections.Counter(re.sub(r"\W|_", "", one.get("title", name)).lower() for name, one in schemas.items())
    for names in (operations, models):
        assert [name for name, count in names.items() if count > 1] == []


async def test_backticks_become_code_and_markup_is_escaped(service):
    text = await page(service, "/api/docs/user")
    assert "<code>/api/user</code>: create" in text
    assert "`" not in text
