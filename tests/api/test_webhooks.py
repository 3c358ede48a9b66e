"""/api/webhook over HTTP: every field, every error, the three patches, search; and deliveries."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import KeySet

from identity.ids import new_id
from tests import certificates, internals
from tests.conftest import SUPER_KEY, checking_client
from tests.outbound.test_addresses import REFUSED_URLS
from tests.receiver import receiving, until

JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


def webhook_body(**members: Any) -> dict[str, Any]:
    return {"webhook": {"url": "https://example.com/hook", "connectTimeout": 1000, "readTimeout": 2000, **members}}


async def make(api: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    answer = await api.post("/api/webhook", json=webhook_body(**members))
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["webhook"])


def errors(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    return {path: [e["code"] for e in entries] for path, entries in answer.json().get("fieldErrors", {}).items()}


async def make_key(api: httpx.AsyncClient, algorithm: str = "RS256") -> str:
    wish: dict[str, Any] = {"name": f"Key {new_id()}", "algorithm": algorithm}
    if algorithm.startswith("RS"):
        wish["length"] = 2048
    answer = await api.post("/api/key/generate", json={"key": wish})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["key"]["id"])


@pytest.mark.requirement(
    "contract-webhook-data",
    "contract-webhooks-1",
    "contract-webhooks-3",
    "core-1-11",
    "core-1-5",
    "service-18",
    "webhooks-2-11",
)
async def test_created_webhook_is_returned_as_sent(api: httpx.AsyncClient, tenant: dict[str, Any]) -> None:
    webhook_id = new_id()
    everything = {
        "connectTimeout": 1000,
        "data": {"updatedBy": "richard", "dotted.name": {"$deep": [1, None]}},
        "description": " The standard game Webhook ",
        "eventsEnabled": {"user.create": True, "user.delete": False},
        "global": False,
        "headers": {"Header 1": " value 1 ", "X-Header-2": "value 2"},
        "httpAuthenticationPassword": " password ",
        "httpAuthenticationUsername": "username",
        "readTimeout": 2000,
        "signatureConfiguration": {"enabled": True, "signingKeyId": await make_key(api)},
        "sslCertificateKeyId": await make_key(api, "ES256"),
        "tenantIds": [tenant["id"], tenant["id"].upper()],
        "url": "http://mygameserver.local:7001/fusionauth-webhook",
    }
    answer = await api.post(f"/api/webhook/{webhook_id}", json={"webhook": everything})
    assert answer.status_code == 200, answer.text
    webhook = answer.json()["webhook"]
    assert webhook.pop("insertInstant") == webhook.pop("lastUpdateInstant")
    assert webhook == {
        **everything,
        "data": {"updatedBy": "richard", "dotted.name": {"$deep": [1, None]}},
        "description": "The standard game Webhook",
        "headers": {"Header 1": "value 1", "X-Header-2": "value 2"},
        "httpAuthenticationPassword": "password",
        "id": webhook_id,
        "tenantIds": [tenant["id"]],
    }
    again = (await api.get(f"/api/webhook/{webhook_id}")).json()["webhook"]
    assert {name: again[name] for name in webhook} == webhook


@pytest.mark.requirement(
    "attack-51", "contract-webhook-applicationIds", "contract-webhook-id", "core-1-7", "core-1-8", "webhooks-4-5"
)
async def test_defaults_are_filled_in(api: httpx.AsyncClient) -> None:
    webhook = await make(api, unknown="member", applicationIds=["x"], id=new_id(), insertInstant=5)
    for name in ("id", "insertInstant", "lastUpdateInstant"):
        assert webhook.pop(name) != 5
    assert webhook == {
        "connectTimeout": 1000,
        "data": {},
        "eventsEnabled": {},
        "global": False,
        "headers": {},
        "readTimeout": 2000,
        "signatureConfiguration": {"enabled": False},
        "tenantIds": [],
        "url": "https://example.com/hook",
    }


@pytest.mark.requirement(
    "contract-errors-1",
    "contract-webhooks-8",
    "core-2-1",
    "design-core-3",
    "webhooks-6-13",
    "webhooks-6-4",
    "webhooks-6-8",
    "webhooks-6-9",
)
async def test_all_errors_are_reported_at_once(api: httpx.AsyncClient) -> None:
    assert errors(await api.post("/api/webhook", json={"webhook": {}})) == {
        "webhook.connectTimeout": ["[missing]webhook.connectTimeout"],
        "webhook.readTimeout": ["[missing]webhook.readTimeout"],
        "webhook.url": ["[blank]webhook.url"],
    }
    answer = await api.post(
        "/api/webhook",
        json=webhook_body(
            url="ftp://example.com",
            headers={"Host": "evil"},
            tenantIds=[new_id()],
            signatureConfiguration={"enabled": True},
            sslCertificate="nonsense",
            sslCertificateKeyId=new_id(),
        ),
    )
    assert errors(answer) == {
        "webhook.headers": ["[invalid]webhook.headers"],
        "webhook.signatureConfiguration.signingKeyId": ["[missing]webhook.signatureConfiguration.signingKeyId"],
        "webhook.sslCertificate": ["[notAllowed]webhook.sslCertificate", "[invalid]webhook.sslCertificate"],
        "webhook.sslCertificateKeyId": ["[invalid]webhook.sslCertificateKeyId"],
        "webhook.tenantIds": ["[invalid]webhook.tenantIds"],
        "webhook.url": ["[invalid]webhook.url"],
    }


@pytest.mark.requirement(
    "attack-62",
    "contract-errors-7",
    "contract-webhook-eventsEnabled",
    "contract-webhook-timeouts",
    "core-1-8",
    "webhooks-2-9",
    "webhooks-6-11",
    "webhooks-6-4",
    "webhooks-6-5",
    "webhooks-6-6",
)
@pytest.mark.parametrize(
    ("member", "value", "path", "code"),
    [
        ("connectTimeout", 0, "webhook.connectTimeout", "[invalid]webhook.connectTimeout"),
        ("connectTimeout", -1, "webhook.connectTimeout", "[invalid]webhook.connectTimeout"),
        ("connectTimeout", 120_001, "webhook.connectTimeout", "[invalid]webhook.connectTimeout"),
        ("connectTimeout", 1.5, "webhook.connectTimeout", "[invalid]webhook.connectTimeout"),
        ("connectTimeout", "1000ms", "webhook.connectTimeout", "[invalid]webhook.connectTimeout"),
        ("connectTimeout", True, "webhook.connectTimeout", "[invalid]webhook.connectTimeout"),
        ("readTimeout", 0, "webhook.readTimeout", "[invalid]webhook.readTimeout"),
        ("readTimeout", None, "webhook.readTimeout", "[missing]webhook.readTimeout"),
        ("url", "", "webhook.url", "[blank]webhook.url"),
        ("url", "  ", "webhook.url", "[blank]webhook.url"),
        ("url", None, "webhook.url", "[blank]webhook.url"),
        ("eventsEnabled", {"user.crate": True}, "webhook.eventsEnabled", "[invalidJSON]"),
        ("eventsEnabled", {"test": True}, "webhook.eventsEnabled", "[invalidJSON]"),
        ("eventsEnabled", {"user.create": "yes"}, "webhook.eventsEnabled", "[invalidJSON]"),
        ("headers", {"X-A": True}, "webhook.headers", "[invalid]webhook.headers"),
        ("headers", {"": "x"}, "webhook.headers", "[invalid]webhook.headers"),
        ("headers", {"X-A": "x\r\nX-B: y"}, "webhook.headers", "[invalid]webhook.headers"),
        ("headers", {"X-A\n": "x"}, "webhook.headers", "[invalid]webhook.headers"),
        ("headers", {"transfer-encoding": "chunked"}, "webhook.headers", "[invalid]webhook.headers"),
        ("tenantIds", ["x"], "webhook.tenantIds[0]", "[couldNotConvert]webhook.tenantIds[0]"),
        ("sslCertificate", "x", "webhook.sslCertificate", "[invalid]webhook.sslCertificate"),
    ],
)
async def test_invalid_value_is_reported_on_field(
    api: httpx.AsyncClient, member: str, value: Any, path: str, code: str
) -> None:
    assert errors(await api.post("/api/webhook", json=webhook_body(**{member: value}))) == {path: [code]}


@pytest.mark.requirement("audit-c1-ignored")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("user.crate", "unknown name [user.crate]. Did you mean [user.create]?"),
        ("User.Create", "unknown name [User.Create]. Did you mean [user.create]?"),
        ("banana", "unknown name [banana]."),
    ],
)
async def test_unknown_event_is_named(api: httpx.AsyncClient, name: str, said: str) -> None:
    answer = await api.post("/api/webhook", json=webhook_body(eventsEnabled={"user.delete": True, name: True}))
    (error,) = answer.json()["fieldErrors"]["webhook.eventsEnabled"]
    assert error["code"] == "[invalidJSON]"
    assert error["message"].endswith(said)


# The suite's service lets loopback through, as an operator with local receivers would.
_LOOPBACK = re.compile(
    r"http://(127\.0\.0\.1|\[::1\]|\[::ffff:(127\.0\.0\.1|7f00:1)\]|([a-z]+\.)?localhost(:8080)?)/", re.IGNORECASE
)


@pytest.mark.requirement("attack-57", "contract-webhook-url", "webhooks-6-5")
@pytest.mark.parametrize(
    "url", [url for url in REFUSED_URLS if url and url == url.strip() and not _LOOPBACK.fullmatch(url)]
)
async def test_attack_57_internal_url_is_refused_on_save(api: httpx.AsyncClient, url: str) -> None:
    assert errors(await api.post("/api/webhook", json=webhook_body(url=url))) == {
        "webhook.url": ["[invalid]webhook.url"]
    }


@pytest.mark.requirement("contract-webhook-sslCertificate", "webhooks-6-10")
async def test_certificate_and_certificate_key_exclude_each_other(api: httpx.AsyncClient) -> None:
    pem = certificates.authority().pem
    assert (await make(api, sslCertificate=f"\n{pem}\n"))["sslCertificate"] == pem.strip()
    both = webhook_body(sslCertificate=pem, sslCertificateKeyId=await make_key(api))
    assert errors(await api.post("/api/webhook", json=both)) == {
        "webhook.sslCertificate": ["[notAllowed]webhook.sslCertificate"]
    }


@pytest.mark.requirement("webhooks-6-10")
async def test_certificate_containing_private_key_is_refused(api: httpx.AsyncClient) -> None:
    """The private key would be readable by every reader of webhooks."""
    one = certificates.authority()
    answer = await api.post("/api/webhook", json=webhook_body(sslCertificate=one.pem + one.key_pem))
    assert errors(answer) == {"webhook.sslCertificate": ["[invalid]webhook.sslCertificate"]}


@pytest.mark.requirement("contract-webhook-signatureConfiguration", "webhooks-6-10", "webhooks-6-9")
async def test_keys_must_suit_their_purpose(api: httpx.AsyncClient) -> None:
    hmac = await make_key(api, "HS256")
    assert await make(api, signatureConfiguration={"enabled": True, "signingKeyId": hmac})
    assert errors(await api.post("/api/webhook", json=webhook_body(sslCertificateKeyId=hmac))) == {
        "webhook.sslCertificateKeyId": ["[invalid]webhook.sslCertificateKeyId"]
    }
    certificate = {"certificate": certificates.authority().pem, "name": f"Key {new_id()}", "type": "EC"}
    imported = await api.post("/api/key/import", json={"key": certificate})
    assert imported.status_code == 200, imported.text
    for useless in (new_id(), imported.json()["key"]["id"]):
        for name in ("signingKeyId", "previousSigningKeyId"):
            signing = {"enabled": False, name: useless}
            path = f"webhook.signatureConfiguration.{name}"
            answer = await api.post("/api/webhook", json=webhook_body(signatureConfiguration=signing))
            assert errors(answer) == {path: [f"[invalid]{path}"]}
        answer = await api.post("/api/webhook", json=webhook_body(sslCertificateKeyId=useless))
        assert errors(answer) == {"webhook.sslCertificateKeyId": ["[invalid]webhook.sslCertificateKeyId"]}


async def test_misspelt_event_type_is_accepted_and_corrected(api: httpx.AsyncClient) -> None:
    webhook = await make(api, eventsEnabled={"user.two-factor.failed.attempt": True})
    assert webhook["eventsEnabled"] == {"user.two-factor.failed-attempt": True}


async def test_integer_written_as_float_is_accepted(api: httpx.AsyncClient) -> None:
    assert (await make(api, connectTimeout=1000.0))["connectTimeout"] == 1000


@pytest.mark.requirement("contract-webhooks-4", "service-18")
async def test_put_replaces_everything(api: httpx.AsyncClient) -> None:
    webhook = await make(api, description="old", headers={"X-A": "1"}, **{"global": True})
    answer = await api.put(f"/api/webhook/{webhook['id']}", json=webhook_body(url="https://example.com/new"))
    replaced = answer.json()["webhook"]
    assert "description" not in replaced
    assert (replaced["headers"], replaced["global"], replaced["url"]) == ({}, False, "https://example.com/new")
    assert replaced["insertInstant"] == webhook["insertInstant"]
    assert replaced["lastUpdateInstant"] > webhook["lastUpdateInstant"]


@pytest.mark.requirement("contract-webhooks-5", "core-1-13", "service-18", "webhooks-4-1")
async def test_merge_changes_entries_and_appends_tenants(api: httpx.AsyncClient, tenant: dict[str, Any]) -> None:
    webhook = await make(api, eventsEnabled={"user.create": True}, headers={"X-A": "1", "X-B": "2"}, description="old")
    change = {
        "eventsEnabled": {"user.delete": True},
        "headers": {"X-A": None},
        "description": None,
        "tenantIds": [tenant["id"], tenant["id"]],
    }
    answer = await api.patch(f"/api/webhook/{webhook['id']}", json={"webhook": change})
    patched = answer.json()["webhook"]
    assert patched["eventsEnabled"] == {"user.create": True, "user.delete": True}
    assert patched["headers"] == {"X-B": "2"}
    assert patched["tenantIds"] == [tenant["id"]]
    assert "description" not in patched
    answer = await api.patch(f"/api/webhook/{webhook['id']}", json={"webhook": {"tenantIds": [tenant["id"]]}})
    assert answer.json()["webhook"]["tenantIds"] == [tenant["id"]]


@pytest.mark.requirement("contract-webhooks-5", "core-1-14", "service-18", "webhooks-4-2")
async def test_json_patch_works_on_the_wrapped_object(api: httpx.AsyncClient, tenant: dict[str, Any]) -> None:
    webhook = await make(api, tenantIds=[tenant["id"]], headers={"X/A": "1"})
    operations = [
        {"op": "remove", "path": "/webhook/tenantIds/0"},
        {"op": "add", "path": "/webhook/eventsEnabled/user.create", "value": True},
        {"op": "replace", "path": "/webhook/headers/X~1A", "value": "2"},
    ]
    path = f"/api/webhook/{webhook['id']}"
    patched = (await api.patch(path, content=json.dumps(operations), headers=JSON_PATCH)).json()["webhook"]
    assert (patched["tenantIds"], patched["headers"]) == ([], {"X/A": "2"})
    assert patched["eventsEnabled"] == {"user.create": True}
    failing = [{"op": "test", "path": "/webhook/url", "value": "other"}, {"op": "remove", "path": "/webhook/headers"}]
    answer = await api.patch(path, content=json.dumps(failing), headers=JSON_PATCH)
    assert [error["code"] for error in answer.json()["generalErrors"]] == ["[invalidPatch]"]
    assert (await api.get(path)).json()["webhook"] == patched


@pytest.mark.requirement("contract-webhooks-5", "core-1-15", "service-18", "webhooks-4-3")
async def test_merge_patch_replaces_arrays(api: httpx.AsyncClient, tenant: dict[str, Any]) -> None:
    webhook = await make(api, tenantIds=[tenant["id"]], description="old")
    change = json.dumps({"webhook": {"tenantIds": [], "description": None, "data": {"a": 1}}})
    answer = await api.patch(f"/api/webhook/{webhook['id']}", content=change, headers=MERGE_PATCH)
    patched = answer.json()["webhook"]
    assert (patched["tenantIds"], patched["data"], "description" in patched) == ([], {"a": 1}, False)


@pytest.mark.requirement("core-1-17")
async def test_patch_is_validated_like_replacement(api: httpx.AsyncClient) -> None:
    webhook = await make(api)
    answer = await api.patch(f"/api/webhook/{webhook['id']}", json={"webhook": {"url": "http://10.0.0.1/"}})
    assert errors(answer) == {"webhook.url": ["[invalid]webhook.url"]}
    assert (await api.get(f"/api/webhook/{webhook['id']}")).json()["webhook"] == webhook


@pytest.mark.requirement("webhooks-4-5")
async def test_patch_ignores_read_only_members(api: httpx.AsyncClient) -> None:
    webhook = await make(api)
    path = f"/api/webhook/{webhook['id']}"
    ours = {"id": new_id(), "insertInstant": 5, "lastUpdateInstant": 5, "status": "Disabled", "disabledReason": "x"}
    patch = [{"op": "add", "path": f"/webhook/{name}", "value": value} for name, value in ours.items()]
    for body, headers in (({"webhook": ours}, {}), ({"webhook": ours}, MERGE_PATCH), (patch, JSON_PATCH)):
        content = {"content": json.dumps(body), "headers": {"Content-Type": "application/json", **headers}}
        patched = (await api.patch(path, **content)).json()["webhook"]
        assert patched.pop("lastUpdateInstant") > webhook["lastUpdateInstant"]
        assert patched == {name: value for name, value in webhook.items() if name != "lastUpdateInstant"}


@pytest.mark.requirement("contract-errors-2", "contract-webhooks-6", "core-1-2", "core-3-1", "webhooks-2-17")
async def test_deleted_webhook_is_not_found(api: httpx.AsyncClient) -> None:
    path = f"/api/webhook/{(await make(api))['id']}"
    answer = await api.delete(path)
    assert (answer.status_code, answer.content) == (200, b"")
    for method in ("GET", "DELETE"):
        assert (await api.request(method, path)).status_code == 404
    assert (await api.put(path, json=webhook_body())).status_code == 404
    assert (await api.patch(path, json=webhook_body())).status_code == 404


@pytest.mark.requirement("core-1-9", "webhooks-2-18", "webhooks-6-12")
async def test_duplicate_and_invalid_id(api: httpx.AsyncClient) -> None:
    webhook = await make(api)
    answer = await api.post(f"/api/webhook/{webhook['id']}", json=webhook_body())
    assert errors(answer) == {"webhookId": ["[duplicate]webhookId"]}
    assert errors(await api.get("/api/webhook/none")) == {"webhookId": ["[couldNotConvert]webhookId"]}


@pytest.mark.requirement("core-2-4", "service-9", "webhooks-2-13")
@pytest.mark.parametrize(
    "use",
    [
        lambda key_id: {"signatureConfiguration": {"enabled": True, "signingKeyId": key_id}},
        lambda key_id: {"signatureConfiguration": {"previousSigningKeyId": key_id}},
        lambda key_id: {"sslCertificateKeyId": key_id},
    ],
    ids=["signing", "previous", "certificate"],
)
async def test_key_used_by_webhook_cannot_be_deleted(
    api: httpx.AsyncClient, use: Callable[[str], dict[str, Any]]
) -> None:
    key_id = await make_key(api)
    webhook = await make(api, **use(key_id))
    assert errors(await api.delete(f"/api/key/{key_id}")) == {"keyId": ["[inUse]keyId"]}
    await api.delete(f"/api/webhook/{webhook['id']}")
    assert (await api.delete(f"/api/key/{key_id}")).status_code == 200


@pytest.mark.requirement("contract-webhooks-10", "contract-webhooks-7", "core-12-3", "service-18", "webhooks-4-8")
@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("GAME", True),
        ("100%", True),
        ("_x", True),
        ("game*", False),
        ("*game*", True),
        ("a game 100%_x?", True),
        ("a*x?", True),
        ("*.*", False),
        ("a game**", False),
        ("1.0%", False),
    ],
)
async def test_search_matches_as_documented(api: httpx.AsyncClient, pattern: str, matches: bool) -> None:
    mark = new_id()
    webhook = await make(api, description="A game 100%_x?", url=f"https://example.com/{mark}")
    by_query = await api.get("/api/webhook/search", params={"description": pattern, "url": mark})
    by_body = await api.post("/api/webhook/search", json={"search": {"description": pattern, "url": mark}})
    assert by_query.json() == by_body.json()
    assert by_query.json() == ({"total": 1, "webhooks": [webhook]} if matches else {"total": 0, "webhooks": []})


@pytest.mark.requirement("contract-webhooks-11", "webhooks-4-9")
async def test_search_by_tenant_finds_global_webhooks_too(api: httpx.AsyncClient, tenant: dict[str, Any]) -> None:
    mark = new_id()
    for index, members in enumerate(({"tenantIds": [tenant["id"]]}, {"global": True}, {})):
        await make(api, url=f"https://example.com/{mark}/{index}", **members)
    query = {"tenantId": tenant["id"], "url": mark, "orderBy": "url ASC"}
    found = (await api.get("/api/webhook/search", params=query)).json()
    assert [webhook["url"][-1] for webhook in found["webhooks"]] == ["0", "1"]
    page = (await api.get("/api/webhook/search", params={**query, "startRow": 1, "numberOfResults": 1})).json()
    assert (page["total"], [webhook["url"][-1] for webhook in page["webhooks"]]) == (2, ["1"])


@pytest.mark.requirement("webhooks-2-14")
async def test_tenant_key_cannot_access_webhooks(
    service: Any, manager: httpx.AsyncClient, tenant: dict[str, Any]
) -> None:
    made = await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})
    assert made.status_code == 200, made.text
    async with checking_client(service.base_url, headers={"Authorization": made.json()["apiKey"]["key"]}) as client:
        assert (await client.get("/api/webhook")).status_code == 401
        assert (await client.post("/api/webhook", json=webhook_body())).status_code == 401
        assert (await client.get("/api/webhook/search")).status_code == 401


@pytest.mark.requirement("contract-webhook-httpAuthentication", "design-state-8")
async def test_password_is_sealed_at_rest(service: Any, api: httpx.AsyncClient) -> None:
    webhook = await make(api, httpAuthenticationUsername="u", httpAuthenticationPassword="open sesame")
    assert webhook["httpAuthenticationPassword"] == "open sesame"
    stored = await internals.database(service).collection("webhooks").find_one({"_id": webhook["id"]})
    assert "open sesame" not in repr(stored)


# The running service, from the API call to the receiver.


async def switch_on(api: httpx.AsyncClient, tenant: dict[str, Any], transaction: str = "None", *types: str) -> None:
    events = {name: {"enabled": True, "transactionType": transaction} for name in types}
    change = {"tenant": {"eventConfiguration": {"events": events}}}
    answer = await api.patch(f"/api/tenant/{tenant['id']}", json=change)
    assert answer.status_code == 200, answer.text


async def create_user(client: httpx.AsyncClient) -> httpx.Response:
    user = {"email": f"{new_id()}@example.com", "password": "correct horse battery"}
    return await client.post("/api/user", json={"user": user})


@pytest.mark.requirement("demo-6", "service-20")
async def test_user_create_event_is_signed_and_delivered_once(
    api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, tenant: dict[str, Any], http: httpx.AsyncClient
) -> None:
    types = ("user.create", "user.create.complete")
    await switch_on(api, tenant, "None", *types)
    signing = {"enabled": True, "signingKeyId": await make_key(api, "ES256")}
    async with receiving() as receiver:
        await make(
            api,
            url=receiver.url,
            tenantIds=[tenant["id"]],
            eventsEnabled=dict.fromkeys(types, True),
            signatureConfiguration=signing,
        )
        user = (await create_user(tenant_api)).json()["user"]
        await receiver.wait_for(2)
        events = {request.event["type"]: request.event for request in receiver.requests}
        assert events.keys() == set(types)
        for event in events.values():
            assert (event["linkedObjectId"], event["tenantId"]) == (user["id"], tenant["id"])
        keys = KeySet.import_key_set((await http.get("/.well-known/jwks.json")).json())
        for request in receiver.requests:
            token = jws.deserialize_compact(request.headers["x-fusionauth-signature-jwt"], keys, algorithms=["ES256"])
            assert token.headers()["typ"] == "JWT"
            digest = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
            assert json.loads(token.payload) == {"request_body_sha256": digest}


@pytest.mark.requirement("core-3-13", "webhooks-8-14")
async def test_vetoed_user_is_not_created(
    api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, tenant: dict[str, Any]
) -> None:
    await switch_on(api, tenant, "AbsoluteMajority", "user.create")
    async with receiving() as receiver:
        await make(api, url=receiver.url, tenantIds=[tenant["id"]], eventsEnabled={"user.create": True})
        await receiver.stop()
        answer = await create_user(tenant_api)
    assert answer.status_code == 504
    assert [error["code"] for error in answer.json()["generalErrors"]] == ["[WebhookTransactionException]"]
    search = await tenant_api.get("/api/user/search", params={"queryString": "*"})
    assert search.json()["total"] == 0


@pytest.mark.requirement("webhooks-15.3-37", "webhooks-8-12", "webhooks-8-6")
async def test_receiver_cannot_see_the_user_before_the_commit(
    service: Any, api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, tenant: dict[str, Any]
) -> None:
    await switch_on(api, tenant, "AbsoluteMajority", "user.create")
    await switch_on(api, tenant, "None", "user.create.complete")
    seen: dict[str, int] = {}

    async def behave(request: Any, writer: Any) -> None:
        async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client:
            seen[request.event["type"]] = (await client.get(f"/api/user/{request.event['user']['id']}")).status_code
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with receiving(behave) as receiver:
        types = dict.fromkeys(("user.create", "user.create.complete"), True)
        await make(api, url=receiver.url, tenantIds=[tenant["id"]], eventsEnabled=types)
        assert (await create_user(tenant_api)).status_code == 200
        await until(lambda: len(seen) == 2)
    assert seen == {"user.create": 404, "user.create.complete": 200}


@pytest.mark.requirement("contract-webhook-global")
async def test_webhook_of_another_tenant_receives_nothing(
    api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, tenant: dict[str, Any]
) -> None:
    await switch_on(api, tenant, "None", "user.create")
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    async with receiving() as mine, receiving() as theirs:
        for receiver, owner in ((theirs, other), (mine, tenant)):
            await make(api, url=receiver.url, tenantIds=[owner["id"]], eventsEnabled={"user.create": True})
        await create_user(tenant_api)
        await mine.wait_for(1)
        assert theirs.requests == []
