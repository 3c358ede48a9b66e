"""The client credentials grant of entities."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from identity.ids import new_id
from identity.store.documents import Documents
from tests import relying_party
from tests.api.test_entities import make as make_entity
from tests.api.test_entity_types import make as make_type
from tests.conftest import UNKNOWN_ID
from tests.dpop import ClientKey
from tests.relying_party import claims, header

Document = dict[str, Any]
PERMISSIONS = [{"name": "read"}, {"name": "write"}, {"name": "scim:user:read"}]


@dataclasses.dataclass
class Machine:
    """An entity that asks for tokens, in a tenant, with entities that it asks for."""

    api: httpx.AsyncClient
    http: httpx.AsyncClient
    tenant: Document
    kind: Document
    entity: Document

    @property
    def client_id(self) -> str:
        return str(self.entity["clientId"])

    @property
    def secret(self) -> str:
        return str(self.entity["clientSecret"])

    async def target(self, *permissions: str, **members: Any) -> Document:
        """Another entity of the same type, on which ours may do something."""
        made = await make_entity(self.api, self.kind, **members)
        if permissions:
            await self.grant(made, *permissions)
        return made

    async def grant(self, target: Document, *permissions: str) -> None:
        body = {"grant": {"recipientEntityId": self.entity["id"], "permissions": list(permissions)}}
        answer = await self.api.post(f"/api/entity/{target['id']}/grant", json=body)
        assert answer.status_code == 200, answer.text

    async def token_request(self, scope: str | None = None, **form: str | None) -> httpx.Response:
        merged = {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.secret,
            "scope": scope,
            **form,
        }
        return await self.http.post("/oauth2/token", data={k: v for k, v in merged.items() if v is not None})

    async def token(self, *targets: Document) -> str:
        answer = await self.token_request(" ".join(f"target-entity:{target['id']}" for target in targets) or None)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    async def introspect(self, asking: Document, token: str, **form: str) -> httpx.Response:
        credentials = {"client_id": asking["clientId"], "client_secret": asking["clientSecret"]}
        return await self.http.post("/oauth2/introspect", data={**credentials, "token": token, **form})

    async def revoke(self, asking: Document, token: str, **form: str) -> httpx.Response:
        credentials = {"client_id": asking["clientId"], "client_secret": asking["clientSecret"]}
        return await self.http.post("/oauth2/revoke", data={**credentials, "token": token, **form})


async def make(api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, http: Any, tenant: Document) -> Machine:
    kind = await make_type(api, permissions=PERMISSIONS)
    return Machine(tenant_api, http, tenant, kind, await make_entity(tenant_api, kind, name="Machine"))


@pytest.fixture
async def machine(api, tenant_api, http, tenant) -> Machine:
    """An entity in a fresh tenant."""
    return await make(api, tenant_api, http, tenant)


def refused(answer: httpx.Response, error: str, reason: str | None, status: int = 400) -> None:
    assert (answer.status_code, answer.json()["error"], answer.json().get("error_reason")) == (status, error, reason)


# Tokens


@pytest.mark.requirement("contract-token-14", "oauth-2.10-8", "oauth-2.2-30")
async def test_token_for_one_target_has_audience_and_permissions(machine):
    target = await machine.target("read", "write")
    scope = f"target-entity:{target['id']}:read"
    answer = await machine.token_request(scope)
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    token = body.pop("access_token")
    assert body == {"expires_in": 3600, "scope": scope, "token_type": "Bearer"}
    assert header(token)["gty"] == ["client_credentials"]
    said = claims(token)
    assert len(said.pop("jti")) == 36
    assert said.pop("exp") - said.pop("iat") == 3600
    assert said == {
        "aud": target["id"],
        "gty": ["client_credentials"],
        "iss": machine.tenant["issuer"],
        "permissions": {target["id"]: ["read"]},
        "scope": scope,
        "sub": machine.entity["id"],
        "tid": machine.tenant["id"],
        "tty": "at",
    }


@pytest.mark.requirement("contract-token-14", "oauth-2.10-8")
async def test_several_targets_are_a_list_of_audiences(machine):
    one, other = await machine.target("read", "write"), await machine.target("scim:user:read")
    scope = f"target-entity:{one['id']} target-entity:{other['id']}:scim:user:read"
    body = (await machine.token_request(scope)).json()
    assert body["scope"] == scope
    said = claims(body["access_token"])
    assert said["aud"] == [one["id"], other["id"]]
    assert said["permissions"] == {one["id"]: ["read", "write"], other["id"]: ["scim:user:read"]}


@pytest.mark.requirement("contract-token-14")
async def test_token_without_scope_has_no_target(machine):
    await machine.target("read")
    for scope in (None, "", "  "):
        body = (await machine.token_request(scope)).json()
        assert body.keys() == {"access_token", "expires_in", "token_type"}
        assert not claims(body["access_token"]).keys() & {"aud", "permissions", "scope"}


async def test_grant_without_permissions_gives_audience_only(machine):
    target = await machine.target()
    await machine.grant(target)
    assert claims(await machine.token(target))["permissions"] == {target["id"]: []}
    refused(
        await machine.token_request(f"target-entity:{target['id']}:read"),
        "invalid_scope",
        "invalid_entity_permission_scope",
    )


async def test_entity_may_be_its_own_target(machine):
    await machine.grant(machine.entity, "read")
    assert claims(await machine.token(machine.entity))["aud"] == machine.entity["id"]


@pytest.mark.requirement("oauth-2.2-27")
async def test_changes_take_effect_immediately(machine, api):
    target = await machine.target("read", "write")
    scope = f"target-entity:{target['id']}"
    assert claims(await machine.token(target))["permissions"] == {target["id"]: ["read", "write"]}
    await machine.grant(target, "write")
    assert claims(await machine.token(target))["permissions"] == {target["id"]: ["write"]}
    removed = {"name": "write"}
    path = f"/api/entity/type/{machine.kind['id']}/permission"
    assert (await api.delete(path, params=removed)).status_code == 200
    assert claims(await machine.token(target))["permissions"] == {target["id"]: []}
    query = {"recipientEntityId": machine.entity["id"]}
    assert (await machine.api.delete(f"/api/entity/{target['id']}/grant", params=query)).status_code == 200
    refused(await machine.token_request(scope), "invalid_scope", "invalid_target_entity_scope")
    await machine.grant(target, "read")
    assert (await machine.token_request(scope)).status_code == 200
    assert (await machine.api.delete(f"/api/entity/{target['id']}")).status_code == 200
    refused(await machine.token_request(scope), "invalid_scope", "invalid_target_entity_scope")


async def test_oversized_token_is_not_issued(machine, api):
    names = [f"{number:04}-{'x' * 180}" for number in range(80)]
    kind = await make_type(api, permissions=[{"name": name} for name in names])
    target = await make_entity(machine.api, kind)
    await machine.grant(target, *names)
    refused(
        await machine.token_request(f"target-entity:{target['id']}"), "invalid_scope", "invalid_target_entity_scope"
    )
    assert (await machine.token_request(f"target-entity:{target['id']}:{names[0]}")).status_code == 200


@pytest.mark.requirement("oauth-2.2-30")
async def test_request_with_warm_caches_queries_no_store(machine, monkeypatch):
    target = await machine.target("read", clientId=f"target {new_id()}")
    machine.entity = (
        await machine.api.patch(
            f"/api/entity/{machine.entity['id']}", json={"entity": {"clientId": f"machine {new_id()}"}}
        )
    ).json()["entity"]
    token = await machine.token(target)
    assert (await machine.introspect(target, token)).json()["active"] is True
    asked = []

    async def load(self: Documents, *where: Any, session: Any = None) -> None:
        asked.append((self.name, where))

    monkeypatch.setattr(Documents, "_load", load)
    monkeypatch.setattr(Documents, "_look_up", load)
    token = await machine.token(target)
    for asking in (machine.entity, target):
        assert (await machine.introspect(asking, token)).json()["active"] is True
    assert asked == []


# Refusals of the scope


@pytest.mark.requirement("oauth-2.2-26", "reason-invalid_target_entity_scope")
@pytest.mark.parametrize(
    "scope",
    [
        "openid",
        "target-entity",
        "target-entity:nonsense",
        f"target-entity:{UNKNOWN_ID}",
        "target-entity:{target}:",
        "target-entity:{target}:read,,write",
        "target-entity:{ungranted}",
        "target-entity:{target} offline_access",
        "target-entity:{target} target-entity:{ungranted}:read",
        "TARGET-ENTITY:{target}",
    ],
)
async def test_scope_without_a_grant_is_rejected(machine, scope):
    target, ungranted = await machine.target("read", "write"), await machine.target()
    answer = await machine.token_request(scope.format(target=target["id"], ungranted=ungranted["id"]))
    refused(answer, "invalid_scope", "invalid_target_entity_scope")


@pytest.mark.requirement("attack-28", "oauth-2.2-27", "reason-invalid_entity_permission_scope")
@pytest.mark.parametrize("permissions", ["write", "read,write", "nonsense", "Read", "read:write"])
async def test_attack_28_permission_without_a_grant_is_rejected(machine, permissions):
    target = await machine.target("read")
    answer = await machine.token_request(f"target-entity:{target['id']}:{permissions}")
    refused(answer, "invalid_scope", "invalid_entity_permission_scope")


@pytest.mark.requirement("oauth-2.2-26")
async def test_grant_has_one_direction_and_one_recipient(machine):
    target = await machine.target("read")
    stranger = await make_entity(machine.api, machine.kind)
    for asking, wanted in ((target, machine.entity), (stranger, target)):
        form = {"client_id": asking["clientId"], "client_secret": asking["clientSecret"]}
        answer = await machine.token_request(f"target-entity:{wanted['id']}", **form)
        refused(answer, "invalid_scope", "invalid_target_entity_scope")


@pytest.mark.requirement("oauth-2.2-26")
async def test_grant_of_a_user_does_not_apply_to_entities(machine):
    target = await machine.target()
    user = await machine.api.post("/api/user", json={"user": {"username": new_id(), "password": "password"}})
    grant = {"userId": user.json()["user"]["id"], "permissions": ["read"]}
    assert (await machine.api.post(f"/api/entity/{target['id']}/grant", json={"grant": grant})).status_code == 200
    refused(
        await machine.token_request(f"target-entity:{target['id']}"), "invalid_scope", "invalid_target_entity_scope"
    )


@pytest.mark.requirement("oauth-2.2-26")
async def test_entity_of_another_tenant_is_no_target(machine, api):
    foreign = await make_entity(api, machine.kind)
    refused(
        await machine.token_request(f"target-entity:{foreign['id']}"), "invalid_scope", "invalid_target_entity_scope"
    )


# The client


@pytest.mark.requirement("oauth-2.2-29")
async def test_basic_authentication_is_accepted(machine):
    for secret in (machine.secret, "a+b/c= %41"):
        patch = {"entity": {"clientSecret": secret, "clientId": f"the machine {new_id()}"}}
        changed = await machine.api.patch(f"/api/entity/{machine.entity['id']}", json=patch)
        machine.entity = changed.json()["entity"]
        basic = base64.b64encode(f"{machine.client_id}:{secret}".encode()).decode()
        answer = await machine.http.post(
            "/oauth2/token", data={"grant_type": "client_credentials"}, headers={"Authorization": f"Basic {basic}"}
        )
        assert claims(answer.json()["access_token"])["sub"] == machine.entity["id"]
        old = await machine.token_request(client_id=machine.entity["id"])
        refused(old, "invalid_client", "invalid_client_id", 401)


@pytest.mark.requirement(
    "attack-24",
    "error-invalid_client",
    "oauth-2.2-29",
    "reason-client_authentication_missing",
    "reason-invalid_client_authentication",
    "reason-missing_client_secret",
)
@pytest.mark.parametrize(
    ("form", "error", "reason", "status"),
    [
        ({"client_secret": "wrong"}, "invalid_client", "invalid_client_authentication", 401),
        ({"client_secret": None}, "invalid_client", "client_authentication_missing", 401),
        ({"client_secret": ""}, "invalid_client", "missing_client_secret", 401),
        ({"client_id": None}, "invalid_request", "missing_client_id", 400),
        ({"client_id": UNKNOWN_ID}, "invalid_client", "invalid_client_id", 401),
        ({"client_id": "a name"}, "invalid_client", "invalid_client_id", 401),
        ({"tenantId": UNKNOWN_ID}, "invalid_request", "invalid_tenant_id", 400),
        ({"tenantId": "default"}, "invalid_request", "invalid_tenant_id", 400),
    ],
)
async def test_attack_24_unauthenticated_client_is_rejected(machine, api, form, error, reason, status):
    if form.get("tenantId") == "default":
        form = {"tenantId": (await api.get("/api/tenant")).json()["tenants"][-1]["id"]}
        assert form["tenantId"] != machine.tenant["id"]
    answer = await machine.token_request(**form)
    refused(answer, error, reason, status)
    assert (answer.headers.get("WWW-Authenticate") == 'Basic realm="oauth2"') is (status == 401)


@pytest.mark.requirement("oauth-2.2-29")
async def test_tenant_may_be_in_path_form_or_header(machine):
    form = {"grant_type": "client_credentials", "client_id": machine.client_id, "client_secret": machine.secret}
    named = {**form, "tenantId": machine.tenant["id"]}
    assert (await machine.http.post("/oauth2/token", data=named)).status_code == 200
    assert (await machine.http.post(f"/{machine.tenant['id']}/oauth2/token", data=form)).status_code == 200
    header_ = {"X-FusionAuth-TenantId": machine.tenant["id"]}
    assert (await machine.http.post("/oauth2/token", data=form, headers=header_)).status_code == 200


@pytest.mark.requirement("oauth-2.2-29")
async def test_application_cannot_use_client_credentials(machine, api):
    rp = await relying_party.make(api)
    answer = await rp.token(machine.http, grant_type="client_credentials")
    refused(answer, "unauthorized_client", "grant_type_disabled")
    refused(
        await rp.token(machine.http, grant_type="client_credentials", client_secret="wrong"),
        "invalid_client", "invalid_client_authentication", 401,
    )  # fmt: skip


@pytest.mark.requirement("oauth-2.2-29")
@pytest.mark.parametrize("grant_type", ["authorization_code", "refresh_token", "password"])
async def test_entity_cannot_use_other_grants(machine, grant_type):
    answer = await machine.token_request(
        grant_type=grant_type, code="code", refresh_token="token", redirect_uri="https://a"
    )
    refused(answer, "invalid_client", "invalid_client_id", 401)


@pytest.mark.requirement("attack-29")
async def test_attack_29_deleted_entity_gets_no_tokens_and_its_tokens_end(machine):
    target = await machine.target("read")
    token = await machine.token(target)
    assert (await machine.introspect(target, token)).json()["active"] is True
    assert (await machine.api.delete(f"/api/entity/{machine.entity['id']}")).status_code == 200
    refused(await machine.token_request(), "invalid_client", "invalid_client_id", 401)
    assert (await machine.introspect(target, token)).json() == {"active": False}


@pytest.mark.requirement("attack-29")
async def test_attack_29_entity_of_a_deleted_tenant_gets_no_tokens(machine, api):
    target = await machine.target("read")
    token = await machine.token(target)
    answer = await api.delete(f"/api/tenant/{machine.tenant['id']}", params={"async": "true"})
    assert answer.status_code in {200, 202}
    refused(await machine.token_request(), "invalid_client", "invalid_client_id", 401)
    assert (await machine.introspect(target, token)).status_code == 401


# Keys and lifetimes


async def key(api: httpx.AsyncClient, algorithm: str = "ES256") -> Document:
    answer = await api.post("/api/key/generate", json={"key": {"name": f"Key {new_id()}", "algorithm": algorithm}})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["key"])


async def configure(machine: Machine, api: httpx.AsyncClient, **jwt_configuration: Any) -> None:
    """Change how entities of the machine's type get their tokens."""
    body = {"entityType": {"name": machine.kind["name"], "jwtConfiguration": jwt_configuration}}
    answer = await api.put(f"/api/entity/type/{machine.kind['id']}", json=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.requirement("oauth-2.10-9")
async def test_entity_type_may_have_its_own_key_and_lifetime(machine, api):
    own = await key(api)
    for enabled in (True, False):
        await configure(machine, api, enabled=enabled, accessTokenKeyId=own["id"], timeToLiveInSeconds=60)
        body = (await machine.token_request()).json()
        assert body["expires_in"] == (60 if enabled else 3600)
        assert (header(body["access_token"])["kid"] == own["kid"]) is enabled
        published = (await machine.http.get("/.well-known/jwks.json")).json()
        read = KeySet.import_key_set(published)
        registry = jwt.JWSRegistry(algorithms=["ES256", "RS256"], strict_check_header=False)
        verified = jwt.decode(body["access_token"], read, algorithms=["ES256", "RS256"], registry=registry)
        assert verified.claims["exp"] - verified.claims["iat"] == body["expires_in"]


@pytest.mark.requirement("core-7-rotation-entity")
async def test_tokens_remain_valid_after_a_key_change_of_their_type(machine, api, clock):
    first, second = await key(api), await key(api)
    tokens = [await machine.token()]
    for members in (
        {"enabled": True, "accessTokenKeyId": first["id"], "timeToLiveInSeconds": 600},
        {"enabled": True, "accessTokenKeyId": second["id"], "timeToLiveInSeconds": 600},
        {"enabled": False},
    ):
        await configure(machine, api, **members)
        tokens.append(await machine.token())
    kids = [header(token)["kid"] for token in tokens]
    assert kids == [kids[0], first["kid"], second["kid"], kids[0]]
    for token in tokens:
        assert (await machine.introspect(machine.entity, token)).json()["active"] is True
    for old in (first, second):
        answer = await api.delete(f"/api/key/{old['id']}")
        assert answer.json()["fieldErrors"]["keyId"][0]["code"] == "[inUse]keyId"
    clock.advance(seconds=600 + 62)
    assert (await api.delete(f"/api/key/{first['id']}")).status_code == 200


@pytest.mark.requirement("core-7-rotation-entity")
async def test_new_key_signs_after_the_publication_lag(machine, api, publication_lag):
    own = await key(api)
    started = asyncio.get_running_loop().time()
    changing = asyncio.create_task(
        configure(machine, api, enabled=True, accessTokenKeyId=own["id"], timeToLiveInSeconds=60)
    )
    kids = []
    while not changing.done():
        token = await machine.token()
        kids.append((header(token)["kid"], changing.done()))
        assert (await machine.introspect(machine.entity, token)).json()["active"] is True
    await changing
    assert header(await machine.token())["kid"] == own["kid"]
    assert kids[0][0] != own["kid"]
    assert (asyncio.get_running_loop().time() - started) * 1000 >= publication_lag


# What the tokens are good for


@pytest.mark.requirement("contract-device-10")
async def test_introspection_is_open_to_entity_and_targets(machine):
    targets = [await machine.target("read"), await machine.target("write")]
    token = await machine.token(*targets)
    for asking in (machine.entity, *targets):
        answer = await machine.introspect(asking, token, token_type_hint="access_token")
        assert answer.json() == {**claims(token), "active": True}
    for hint in ("id_token", "refresh_token"):
        answer = await machine.introspect(machine.entity, token, token_type_hint=hint)
        refused(answer, "invalid_request", "token_type_hint_mismatch")
    assert (await machine.introspect(machine.entity, "nonsense", token_type_hint="refresh_token")).json() == {
        "active": False
    }


@pytest.mark.requirement("attack-30")
async def test_attack_30_introspection_is_closed_to_others(machine, api):
    token = await machine.token(await machine.target("read"))
    stranger = await make_entity(machine.api, machine.kind)
    refused(await machine.introspect(stranger, token), "invalid_client", "client_id_mismatch", 401)
    rp = await relying_party.make(api, tenant=machine.tenant)
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token}
    answer = await machine.http.post("/oauth2/introspect", data=form)
    refused(answer, "invalid_client", "client_id_mismatch", 401)
    assert machine.entity["id"] not in answer.text
    elsewhere = await make_entity(api, machine.kind)
    assert (await machine.introspect(elsewhere, token)).json() == {"active": False}


@pytest.mark.requirement("attack-30")
async def test_attack_30_entity_cannot_introspect_user_tokens(machine, api, browser):
    rp = await relying_party.make(api, tenant=machine.tenant)
    tokens = await rp.tokens(machine.http, browser)
    for kind in ("access_token", "id_token"):
        refused(await machine.introspect(machine.entity, tokens[kind]), "invalid_client", "client_id_mismatch", 401)
        refused(await machine.revoke(machine.entity, tokens[kind]), "invalid_client", "client_id_mismatch", 401)
    hint = {"token_type_hint": "refresh_token"}
    answer = await machine.introspect(machine.entity, tokens["refresh_token"], **hint)
    assert answer.json() == {"active": False}
    assert (await machine.revoke(machine.entity, tokens["refresh_token"], **hint)).status_code == 200
    assert (await rp.refresh(machine.http, tokens["refresh_token"])).status_code == 200


async def test_introspection_requires_the_secret_of_an_entity(machine):
    token = await machine.token()
    without = {**machine.entity, "clientSecret": ""}
    refused(await machine.introspect(without, token), "invalid_client", "missing_client_secret", 401)
    answer = await machine.http.post("/oauth2/introspect", data={"client_id": machine.client_id, "token": token})
    refused(answer, "invalid_client", "client_authentication_missing", 401)


@pytest.mark.requirement("oauth-12-4")
async def test_entity_can_revoke_its_token_and_targets_cannot(machine):
    target = await machine.target("read")
    token, kept = await machine.token(target), await machine.token(target)
    refused(await machine.revoke(target, token), "invalid_client", "client_id_mismatch", 401)
    assert (await machine.introspect(target, token)).json()["active"] is True
    assert (await machine.revoke(machine.entity, token)).status_code == 200
    assert (await machine.introspect(target, token)).json() == {"active": False}
    assert (await machine.introspect(target, kept)).json()["active"] is True


@pytest.mark.requirement("contract-device-10")
async def test_expired_token_is_inactive(machine, clock):
    token = await machine.token()
    clock.advance(seconds=3601)
    assert (await machine.introspect(machine.entity, token)).json() == {"active": False}


@pytest.mark.requirement("error-invalid_token", "oauth-4.2-12", "reason-access_token_invalid")
async def test_userinfo_rejects_the_token_of_an_entity(machine):
    for token in (await machine.token(), await machine.token(await machine.target("read"))):
        answer = await machine.http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
        refused(answer, "invalid_token", "access_token_invalid", 401)
        assert answer.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token", DPoP ')


@pytest.mark.requirement("attack-27", "oauth-4.2-12")
async def test_attack_27_entity_with_the_id_of_another_object_is_not_confused(machine, api, http):
    """An entity with the id of a user, and a target with that of an application: still no token of the user's."""
    rp = await relying_party.make(api, tenant=machine.tenant)
    answer = await machine.api.post(
        f"/api/entity/{rp.user['id']}", json={"entity": {"name": "User", "type": {"id": machine.kind["id"]}}}
    )
    machine.entity = answer.json()["entity"]
    made = await machine.api.post(
        f"/api/entity/{rp.client_id}",
        json={"entity": {"name": "Application", "clientId": new_id(), "type": {"id": machine.kind["id"]}}},
    )
    assert made.json()["fieldErrors"]["entityId"][0]["code"] == "[duplicate]entityId"
    token = await machine.token()
    answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
    refused(answer, "invalid_token", "access_token_invalid", 401)


@pytest.mark.requirement("core-18-lambdas-16", "oauth-2.10-8")
async def test_lambda_of_the_tenant_adds_to_the_claims(machine, api):
    body = (
        "function populate(jwt, recipientEntity, targetEntities, permissions) {"
        "  jwt.seen = [recipientEntity, targetEntities, permissions]; jwt.gty = ['forged']; jwt.sub = 'forged';"
        "  jwt.permissions = {}; jwt.colour = 'blue';"
        "}"
    )
    wanted = {"name": f"Lambda {new_id()}", "type": "ClientCredentialsJWTPopulate", "body": body}
    made = (await api.post("/api/lambda", json={"lambda": wanted})).json()["lambda"]
    member = {"clientCredentialsAccessTokenPopulateLambdaId": made["id"]}
    changed = await api.patch(f"/api/tenant/{machine.tenant['id']}", json={"tenant": {"oauthConfiguration": member}})
    assert changed.status_code == 200, changed.text
    target = await machine.target("read", data={"region": "north"})
    token = await machine.token(target)
    said = claims(token)
    assert (said["colour"], said["sub"], said["gty"]) == ("blue", machine.entity["id"], ["client_credentials"])
    assert said["permissions"] == {target["id"]: ["read"]}
    recipient, targets, permissions = said["seen"]
    assert recipient["name"] == "Machine"
    assert targets[0]["data"] == {"region": "north"}
    assert targets[0]["type"]["name"] == machine.kind["name"]
    assert permissions == {target["id"]: ["read"]}
    for secret in (machine.secret, target["clientSecret"], "private"):
        assert secret not in str(said)
    assert (await machine.introspect(target, token)).json()["colour"] == "blue"
    broken = {"lambda": {**wanted, "body": "function populate(jwt) { throw new Error('no'); }"}}
    assert (await api.put(f"/api/lambda/{made['id']}", json=broken)).status_code == 200
    failed = await machine.token_request()
    assert (failed.status_code, failed.json()["error"]) == (512, "server_error")


@pytest.mark.requirement("contract-discovery-4")
async def test_metadata_lists_the_grant(http):
    for path in ("openid-configuration", "oauth-authorization-server"):
        assert "client_credentials" in (await http.get(f"/.well-known/{path}")).json()["grant_types_supported"]


@pytest.mark.requirement("oauth-2.2-9")
async def test_token_of_an_entity_may_be_bound_to_a_key(machine):
    key = ClientKey()
    form = {"grant_type": "client_credentials", "client_id": machine.client_id, "client_secret": machine.secret}
    proof = key.header(machine.http, "POST", "/oauth2/token")
    answer = await machine.http.post("/oauth2/token", data=form, headers=proof)
    assert answer.json()["token_type"] == "DPoP"
    assert claims(answer.json()["access_token"])["cnf"] == {"jkt": key.thumbprint}
    introspection = (await machine.introspect(machine.entity, answer.json()["access_token"])).json()
    assert (introspection["active"], introspection["token_type"], introspection["cnf"]) == (
        True,
        "DPoP",
        {"jkt": key.thumbprint},
    )
    refused(await machine.http.post("/oauth2/token", data=form, headers=proof), "invalid_dpop_proof", None)
