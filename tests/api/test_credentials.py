"""Stored credentials: dropped when their address or account changes, kept otherwise, masked for read-only keys."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import internals
from tests.conftest import SUPER_KEY, checking_client
from tests.receiver import receiving

Document = dict[str, Any]

JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
MASK = "*****"

WEBHOOK = {
    "url": "https://example.com/hook",
    "connectTimeout": 1000,
    "readTimeout": 2000,
    "headers": {"X-Api-Key": "the-header"},
    "httpAuthenticationUsername": "we",
    "httpAuthenticationPassword": "the-password",
}
MAIL_SERVER = {"host": "smtp.example.com", "port": 587, "security": "TLS", "username": "we", "password": "the-password"}


class Stored:
    """An object in MongoDB, as the service reads it."""

    def __init__(self, service: Any, api: Any, collection: str, path: str, name: str, object_id: str) -> None:
        self.documents = internals.store(service, "collections")[collection]
        self.api, self.path, self.name, self.object_id = api, f"{path}/{object_id}", name, object_id

    async def now(self) -> Document:
        where = {"_id": self.object_id}
        (document,) = await self.documents.find_all_across_tenants(where)
        return dict(document)

    async def patch(self, members: Any, headers: Mapping[str, str] | None = None) -> Document:
        body = members if isinstance(members, list) else {self.name: members}
        answer = await self.api.patch(self.path, json=body, headers=headers or {})
        assert answer.status_code == 200, answer.text
        return await self.now()

    async def put(self, members: Document) -> Document:
        answer = await self.api.put(self.path, json={self.name: members})
        assert answer.status_code == 200, answer.text
        return await self.now()


async def stored(service: Any, api: Any, collection: str, path: str, name: str, members: Document) -> Stored:
    answer = await api.post(path, json={name: members})
    assert answer.status_code == 200, answer.text
    return Stored(service, api, collection, path, name, answer.json()[name]["id"])


@pytest.fixture
async def mail_tenant(service, api, tenant) -> Stored:
    found = Stored(service, api, "tenants", "/api/tenant", "tenant", tenant["id"])
    await found.patch({"emailConfiguration": MAIL_SERVER})
    return found


@pytest.fixture
async def webhook(service, api) -> Stored:
    return await stored(service, api, "webhooks", "/api/webhook", "webhook", WEBHOOK)


@pytest.fixture
async def messenger(service, api) -> Stored:
    members = {**WEBHOOK, "name": new_id(), "type": "Generic"}
    return await stored(service, api, "messengers", "/api/messenger", "messenger", members)


@pytest.fixture
async def writer(service, manager) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key that changes webhooks and cannot read them."""
    key = {"permissions": {"endpoints": {"/api/webhook": ["PATCH", "PUT"]}}}
    made = await manager.post("/api/api-key", json={"apiKey": key})
    headers = {"Authorization": made.json()["apiKey"]["key"]}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.fixture
def receivers(webhook, messenger, writer) -> dict[str, Stored]:
    webhook.api = writer
    return {"webhook": webhook, "messenger": messenger}


@pytest.fixture
async def provider(service, api) -> Stored:
    application = (await api.post("/api/application", json={"application": {"name": new_id()}})).json()["application"]
    own = {"client_id": "own-client", "client_secret": "own-secret"}
    oauth2 = {"client_id": "client", "client_secret": "the-secret", "issuer": "https://provider.example.com"}
    members = {
        "type": "OpenIDConnect",
        "name": new_id(),
        "applicationConfiguration": {application["id"]: {"oauth2": own}},
        "oauth2": oauth2,
    }
    return await stored(service, api, "identity_providers", "/api/identity-provider", "identityProvider", members)


def own_of(provider: Document) -> Document:
    (settings,) = provider["applicationConfiguration"].values()
    return dict(settings["oauth2"])


# Mail servers


@pytest.mark.requirement("audit-a3-credentials")
@pytest.mark.parametrize(
    "change", [{"host": "smtp.attacker.example"}, {"port": 2525}, {"security": "SSL"}, {"username": "other-user"}]
)
@pytest.mark.parametrize("verb", ["PUT", "PATCH", "merge", "JSON Patch"])
async def test_password_is_dropped_when_its_mail_server_or_account_changes(mail_tenant, change, verb) -> None:
    if verb == "PUT":
        without = {name: value for name, value in MAIL_SERVER.items() if name != "password"}
        name = (await mail_tenant.now())["name"]
        after = await mail_tenant.put({"name": name, "issuer": new_id(), "emailConfiguration": {**without, **change}})
    elif verb == "JSON Patch":
        ((name, value),) = change.items()
        operation = {"op": "replace", "path": f"/tenant/emailConfiguration/{name}", "value": value}
        after = await mail_tenant.patch([operation], JSON_PATCH)
    else:
        after = await mail_tenant.patch({"emailConfiguration": change}, MERGE_PATCH if verb == "merge" else None)
    assert "password" not in after["emailConfiguration"]
    assert after["emailConfiguration"] | change == after["emailConfiguration"]


@pytest.mark.requirement("audit-a3-credentials")
async def test_password_of_the_mail_server_stays_and_can_be_replaced(mail_tenant) -> None:
    name = (await mail_tenant.now())["name"]
    without = {name: value for name, value in MAIL_SERVER.items() if name != "password"}
    after = await mail_tenant.put({"name": name, "issuer": new_id(), "emailConfiguration": without})
    assert after["emailConfiguration"]["password"] == "the-password"
    after = await mail_tenant.patch({"emailConfiguration": {"defaultFromName": "We"}})
    assert after["emailConfiguration"]["password"] == "the-password"
    after = await mail_tenant.patch({"emailConfiguration": {"host": "other.example.com", "password": "new"}})
    assert after["emailConfiguration"]["password"] == "new"
    after = await mail_tenant.patch({"emailConfiguration": {"password": MASK}})
    assert after["emailConfiguration"]["password"] == "new"
    after = await mail_tenant.patch({"emailConfiguration": {"host": "third.example.com", "password": MASK}})
    assert "password" not in after["emailConfiguration"]


@pytest.mark.requirement("audit-a3-credentials")
@pytest.mark.parametrize("change", [{"captchaMethod": "HCaptcha"}, {"siteKey": "other"}])
async def test_captcha_secret_is_dropped_when_its_account_changes(mail_tenant, change) -> None:
    captcha = {"captchaMethod": "GoogleRecaptchaV2", "siteKey": "site", "secretKey": "the-key"}
    before = await mail_tenant.patch({"captchaConfiguration": captcha})
    assert before["captchaConfiguration"]["secretKey"] == "the-key"
    after = await mail_tenant.patch({"captchaConfiguration": change})
    assert "secretKey" not in after["captchaConfiguration"]


# Receivers of HTTP requests


@pytest.mark.requirement("audit-a3-credentials")
@pytest.mark.parametrize("receiver", ["webhook", "messenger"])
@pytest.mark.parametrize("verb", ["PATCH", "merge", "JSON Patch", "PUT masked"])
async def test_password_and_headers_are_dropped_when_the_url_changes(receivers, receiver, verb) -> None:
    target = receivers[receiver]
    url = "https://attacker.example/hook"
    if verb == "JSON Patch":
        operation = {"op": "replace", "path": f"/{receiver}/url", "value": url}
        after = await target.patch([operation], JSON_PATCH)
    elif verb == "PUT masked":
        masked = {"httpAuthenticationPassword": MASK, "headers": {"X-Api-Key": MASK, "X-New": "new"}}
        own = {} if receiver == "webhook" else {"name": new_id(), "type": "Generic"}
        after = await target.put({**WEBHOOK, **own, **masked, "url": url})
        assert after["headers"] == {"X-New": "new"}
    else:
        after = await target.patch({"url": url}, MERGE_PATCH if verb == "merge" else None)
        assert after["headers"] == {}
    assert after["url"] == url
    assert "httpAuthenticationPassword" not in after
    assert "X-Api-Key" not in after["headers"]


@pytest.mark.requirement("audit-a3-credentials")
@pytest.mark.parametrize("receiver", ["webhook", "messenger"])
async def test_password_is_dropped_when_the_user_name_changes_and_headers_stay(receivers, receiver) -> None:
    target = receivers[receiver]
    after = await target.patch({"httpAuthenticationUsername": "other-user"})
    assert "httpAuthenticationPassword" not in after
    assert after["headers"] == WEBHOOK["headers"]


@pytest.mark.requirement("audit-a3-credentials")
@pytest.mark.parametrize("receiver", ["webhook", "messenger"])
async def test_credentials_are_kept_or_replaced_as_requested(receivers, receiver) -> None:
    target = receivers[receiver]
    kept = await target.patch({"connectTimeout": 2000, "httpAuthenticationPassword": MASK})
    assert kept["httpAuthenticationPassword"] == "the-password"
    assert kept["headers"] == WEBHOOK["headers"]
    url = "https://other.example/hook"
    after = await target.patch({"url": url, "httpAuthenticationPassword": "new", "headers": {"X-Api-Key": "new"}})
    assert (after["httpAuthenticationPassword"], after["headers"]) == ("new", {"X-Api-Key": "new"})
    own = {} if receiver == "webhook" else {"name": new_id(), "type": "Generic"}
    stated = await target.put({**WEBHOOK, **own, "url": "https://third.example/hook"})
    assert stated["httpAuthenticationPassword"] == "the-password"
    removed = await target.patch({"httpAuthenticationPassword": None})
    assert "httpAuthenticationPassword" not in removed


@pytest.mark.requirement("audit-a3-credentials")
@pytest.mark.parametrize("media_type", [None, MERGE_PATCH, JSON_PATCH], ids=["patch", "merge patch", "JSON Patch"])
async def test_patch_of_the_url_of_a_webhook_keeps_credentials_for_who_reads_them(webhook, media_type) -> None:
    url = "https://other.example.com/hook"
    operation = [{"op": "replace", "path": "/webhook/url", "value": url}]
    after = await webhook.patch(operation if media_type is JSON_PATCH else {"url": url}, media_type)
    assert (after["url"], after["headers"]) == (url, WEBHOOK["headers"])
    assert after["httpAuthenticationPassword"] == "the-password"


@pytest.mark.requirement("audit-a3-credentials")
async def test_credentials_are_not_sent_to_another_receiver(api, writer) -> None:
    async with receiving() as first, receiving() as second:
        answer = await api.post("/api/webhook", json={"webhook": {**WEBHOOK, "url": first.url}})
        path = f"/api/webhook/{answer.json()['webhook']['id']}"
        for _ in range(2):
            assert (await api.post(f"{path}/test", json={"eventType": "user.create"})).status_code == 200
            await writer.patch(path, json={"webhook": {"url": second.url}})
        sent = [request.headers for request in (*first.requests, *second.requests)]
    assert [headers.get("x-api-key") for headers in sent] == ["the-header", None]
    expected = [f"Basic {base64.b64encode(pair).decode()}" for pair in (b"we:the-password", b"we:")]
    assert [headers.get("authorization") for headers in sent] == expected


# Identity providers


@pytest.mark.requirement("audit-a3-credentials")
@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://attacker.example"},
        {"token_endpoint": "https://attacker.example/token"},
        {"client_id": "other-user"},
    ],
)
@pytest.mark.parametrize("secret", [None, MASK])
async def test_client_secret_is_not_sent_to_another_address_or_account(provider, change, secret) -> None:
    before = await provider.now()
    oauth2 = change if secret is None else {**change, "client_secret": secret}
    answer = await provider.api.patch(provider.path, json={"identityProvider": {"oauth2": oauth2}})
    # A provider that authenticates with a secret cannot do without one: the caller has to send it again.
    assert answer.status_code == 400, answer.text
    assert list(answer.json()["fieldErrors"]) == ["identityProvider.oauth2.client_secret"]
    assert await provider.now() == before
    after = await provider.patch({"oauth2": {**change, "client_secret": "new"}})
    assert after["oauth2"]["client_secret"] == "new"
    if "client_id" in change:
        assert own_of(after)["client_secret"] == "own-secret"
    else:
        assert "client_secret" not in own_of(after)


@pytest.mark.requirement("audit-a3-credentials")
async def test_client_secret_of_application_is_dropped_with_client_id(provider) -> None:
    (application_id,) = (await provider.now())["applicationConfiguration"]
    change = {"applicationConfiguration": {application_id: {"oauth2": {"client_id": "other-user"}}}}
    after = await provider.patch(change)
    assert own_of(after) == {"client_id": "other-user"}
    assert after["oauth2"]["client_secret"] == "the-secret"


@pytest.mark.requirement("audit-a3-credentials")
async def test_client_secrets_are_kept_on_unrelated_changes(provider) -> None:
    after = await provider.patch({"buttonText": "Log in", "oauth2": {"scope": "openid"}})
    assert after["oauth2"]["client_secret"] == "the-secret"
    assert own_of(after)["client_secret"] == "own-secret"


@pytest.mark.requirement("audit-a3-credentials")
@pytest.mark.parametrize(
    ("members", "account", "secret"),
    [
        ({"type": "Google", "client_id": "a", "client_secret": "the-secret"}, "client_id", "client_secret"),
        ({"type": "Facebook", "appId": "a", "client_secret": "the-secret"}, "appId", "client_secret"),
        ({"type": "Twitter", "consumerKey": "a", "consumerSecret": "the-secret"}, "consumerKey", "consumerSecret"),
        ({"type": "Steam", "client_id": "a", "webAPIKey": "the-secret"}, "client_id", "webAPIKey"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
async def test_secret_of_external_account_is_dropped_with_account(service, api, members, account, secret) -> None:
    tenant_id = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]["id"]
    provider = {**members, "tenantId": tenant_id}
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        answer = await everywhere.post("/api/identity-provider", json={"identityProvider": provider})
        assert answer.status_code == 200, answer.text
        path = f"/api/identity-provider/{answer.json()['identityProvider']['id']}"
        changed = await everywhere.patch(path, json={"identityProvider": {account: "b"}})
        if changed.status_code == 200:
            assert secret not in changed.json()["identityProvider"]
        else:
            assert list(changed.json()["fieldErrors"]) == [f"identityProvider.{secret}"]
        new = await everywhere.patch(path, json={"identityProvider": {account: "b", secret: "new"}})
        assert new.json()["identityProvider"][secret] == "new"


# Clients of the service: their secrets are bound to no address


@pytest.mark.requirement("audit-a3-credentials")
async def test_masked_client_secret_keeps_stored_secret(service, api) -> None:
    application = await stored(service, api, "applications", "/api/application", "application", {"name": new_id()})
    before = (await application.now())["oauthConfiguration"]["clientSecret"]
    after = await application.put({"name": new_id(), "oauthConfiguration": {"clientSecret": MASK}})
    assert after["oauthConfiguration"]["clientSecret"] == before
    created = await api.post(
        "/api/application", json={"application": {"name": new_id(), "oauthConfiguration": {"clientSecret": MASK}}}
    )
    assert created.json()["application"]["oauthConfiguration"]["clientSecret"] != MASK


# Read-only keys


async def key_client(service: Any, manager: Any, endpoints: dict[str, list[str]], tenant_id: str | None) -> Any:
    made = await manager.post("/api/api-key", json={"apiKey": {"permissions": {"endpoints": endpoints}}})
    assert made.status_code == 200, made.text
    headers = {"Authorization": made.json()["apiKey"]["key"]}
    return checking_client(service.base_url, headers={**headers, "X-FusionAuth-TenantId": tenant_id})


async def everything_read(client: Any, path: str, object_id: str, searches: list[str]) -> list[str]:
    """The object as each response of the API shows it."""
    answers = [await client.get(f"{path}/{object_id}"), *[await client.get(f"{path}{search}") for search in searches]]
    if "/search" in "".join(searches):
        search: Document = {"numberOfResults": 500}
        search |= {"queryString": "*"} if path == "/api/entity" else {}
        answers.append(await client.post(f"{path}/search", json={"search": search}))
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    assert all(object_id in answer.text for answer in answers)
    return [answer.text for answer in answers]


@pytest.mark.requirement("audit-a8-masks")
@pytest.mark.parametrize(
    ("path", "searches"),
    [
        ("/api/application", ["", "/search?numberOfResults=500"]),
        ("/api/entity", ["/search?queryString=*&numberOfResults=500"]),
        ("/api/identity-provider", ["", "?type=OpenIDConnect", "/search?numberOfResults=500"]),
        ("/api/messenger", [""]),
        ("/api/webhook", ["", "/search?numberOfResults=500"]),
    ],
)
async def test_read_only_keys_see_masks_and_keys_that_write_see_credentials(
    service, api, manager, tenant, path, searches
) -> None:
    async with checking_client(
        service.base_url, headers={"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    ) as owner:
        mark = f"secret-{new_id()}"
        kind = (await api.post("/api/entity/type", json={"entityType": {"name": new_id()}})).json()["entityType"]["id"]
        hook = {**WEBHOOK, "headers": {"X-Api-Key": mark}, "httpAuthenticationPassword": mark}
        provider = {"client_id": "client", "client_secret": mark, "issuer": "https://provider.example.com"}
        name, members = {
            "/api/application": ("application", {"oauthConfiguration": {"clientSecret": mark}}),
            "/api/entity": ("entity", {"clientSecret": mark, "type": {"id": kind}}),
            "/api/identity-provider": ("identityProvider", {"type": "OpenIDConnect", "oauth2": provider}),
            "/api/messenger": ("messenger", {**hook, "type": "Generic"}),
            "/api/webhook": ("webhook", hook),
        }[path]
        made = await owner.post(path, json={name: {"name": new_id(), **members}})
        assert made.status_code == 200, made.text
        object_id = made.json()[name]["id"]
    methods = {path: ["GET"], f"{path}/search": ["GET", "POST"]}
    if path == "/api/messenger":
        methods = {path: ["GET"]}
    if path == "/api/webhook":
        methods["/api/webhook/status"] = ["PUT"]
    async with await key_client(service, manager, methods, tenant["id"]) as reader:
        texts = await everything_read(reader, path, object_id, searches)
        if path == "/api/webhook":
            status = await reader.put(f"{path}/{object_id}/status", json={"status": "Paused"})
            assert status.status_code == 200, status.text
            texts.append(status.text)
    assert all(mark not in text for text in texts)
    assert MASK in texts[0]
    async with await key_client(service, manager, {**methods, path: ["GET", "PUT"]}, tenant["id"]) as writer:
        texts = await everything_read(writer, path, object_id, searches)
        assert all(mark in text for text in texts)
        # What a read-only key has read can be written back without a loss.
        async with await key_client(service, manager, methods, tenant["id"]) as reader:
            read = (await reader.get(f"{path}/{object_id}")).json()
        written = await writer.put(f"{path}/{object_id}", json=read)
        assert written.status_code == 200, written.text
        assert mark in written.text
