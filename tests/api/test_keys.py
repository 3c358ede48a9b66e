"""Keys over the API: generate, import, rename, delete, search; private keys are never returned."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from joserfc.jwk import KeySet

from identity import app
from identity.ids import new_id
from tests import internals
from tests.conftest import DEFAULT_TENANT

Document = dict[str, Any]
RSA = rsa.generate_private_key(65537, 2048)


def private_pem(key: Any) -> str:
    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


def public_pem(key: Any) -> str:
    return str(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


async def add(api: httpx.AsyncClient, way: str, **key: Any) -> Document:
    answer = await api.post(f"/api/key/{way}", json={"key": {"name": f"Key {new_id()}", **key}})
    assert answer.status_code == 200, answer.text
    assert "PRIVATE" not in answer.text
    return dict(answer.json()["key"])


MEMBERS = {"algorithm", "id", "insertInstant", "kid", "lastUpdateInstant", "name", "type"}
PUBLIC = {"hasPrivateKey", "issuer", "publicKey"}
CERTIFIED = {"certificate", "certificateInformation", "expirationInstant", "length"}


@pytest.mark.requirement("core-7-generate", "core-7-length", "core-7-type", "service-9")
@pytest.mark.parametrize(
    ("wanted", "kind", "length", "members"),
    [
        ({"algorithm": "RS256", "length": 2048}, "RSA", 2048, MEMBERS | PUBLIC | CERTIFIED),
        ({"algorithm": "RS512", "length": 2048, "type": "RSA"}, "RSA", 2048, MEMBERS | PUBLIC | CERTIFIED),
        ({"algorithm": "ES256"}, "EC", 256, MEMBERS | PUBLIC | CERTIFIED),
        ({"algorithm": "ES384", "length": 384}, "EC", 384, MEMBERS | PUBLIC | CERTIFIED),
        ({"algorithm": "ES512"}, "EC", 521, MEMBERS | PUBLIC | CERTIFIED),
        ({"algorithm": "Ed25519"}, "OKP", None, MEMBERS | PUBLIC),
        ({"algorithm": "HS256"}, "HMAC", None, MEMBERS),
        ({"algorithm": "HS512", "issuer": "ignored"}, "HMAC", None, MEMBERS),
    ],
)
async def test_generated_key_omits_private_part(api, wanted, kind, length, members) -> None:
    made = await add(api, "generate", **wanted)
    assert made.keys() == members
    assert (made["type"], made["algorithm"], made.get("length")) == (kind, wanted["algorithm"], length)
    assert made.get("hasPrivateKey", True) is True
    assert (await api.get(f"/api/key/{made['id']}")).json() == {"key": made}


@pytest.mark.requirement("core-7-certificate")
async def test_generated_certificate_has_default_tenant_issuer(service, api) -> None:
    made = await add(api, "generate", algorithm="ES256")
    issuer = (await api.get(f"/api/tenant/{DEFAULT_TENANT}")).json()["tenant"]["issuer"]
    assert made["issuer"] == issuer
    assert made["certificateInformation"]["subject"] == made["certificateInformation"]["issuer"] == f"CN={issuer}"
    assert made["expirationInstant"] == made["certificateInformation"]["validTo"]
    chosen = await add(api, "generate", algorithm="ES256", issuer="other.example.com", kid="chosen")
    assert (chosen["issuer"], chosen["kid"]) == ("other.example.com", "chosen")
    assert (await api.delete(f"/api/key/{chosen['id']}")).status_code == 200


@pytest.mark.requirement("core-7-errors", "core-7-generate", "core-7-id", "core-7-length")
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"algorithm": "RS256"}, "[missing]key.length"),
        ({"algorithm": "RS256", "length": 1024}, "[invalid]key.length"),
        ({"algorithm": "RS256", "length": 2049}, "[invalid]key.length"),
        ({"algorithm": "RS256", "length": 2**31}, "[invalid]key.length"),
        ({}, "[missing]key.algorithm"),
        ({"algorithm": "none"}, "[invalid]key.algorithm"),
        ({"algorithm": "None"}, "[invalid]key.algorithm"),
        ({"algorithm": "RS256", "length": 2048, "type": "EC"}, "[invalid]key.type"),
        ({"algorithm": "ES256", "name": ""}, "[blank]key.name"),
        ({"algorithm": "ES256", "name": "x" * 192}, "[tooLong]key.name"),
    ],
)
async def test_generate_refuses_invalid_requests(api, wanted, expected) -> None:
    body = {"key": {"name": f"Key {new_id()}", **wanted}}
    assert codes(await api.post("/api/key/generate", json=body)) == {expected}


@pytest.mark.requirement("core-7-errors", "core-7-id", "core-7-kid")
async def test_names_kids_and_ids_are_unique(api) -> None:
    kid, key_id = new_id(), new_id()
    made = await api.post(f"/api/key/generate/{key_id}", json={"key": {"name": kid, "algorithm": "HS256", "kid": kid}})
    assert made.json()["key"]["id"] == key_id

    async def refused(path: str, **key: Any) -> set[str]:
        return codes(await api.post(path, json={"key": {"algorithm": "HS256", **key}}))

    assert await refused("/api/key/generate", name=kid) == {"[duplicate]key.name"}
    assert await refused("/api/key/generate", name="other", kid=kid) == {"[duplicate]key.kid"}
    assert await refused(f"/api/key/generate/{key_id}", name="other") == {"[duplicate]keyId"}
    assert await refused("/api/key/generate/x", name="other") == {"[couldNotConvert]keyId"}
    assert codes(await api.post("/api/key/generate", json={})) == {"[missing]key"}


@pytest.mark.requirement("core-7-import", "core-7-publicKey", "service-9")
async def test_imported_pairs_secrets_and_public_keys(api) -> None:
    pair = await add(api, "import", type="RSA", privateKey=private_pem(RSA), publicKey=public_pem(RSA), kid=new_id())
    assert (pair["algorithm"], pair["length"], pair["hasPrivateKey"]) == ("RS256", 2048, True)
    assert pair["publicKey"].strip() == public_pem(RSA).strip()
    curve = ec.generate_private_key(ec.SECP384R1())
    derived = await add(api, "import", type="EC", privateKey=private_pem(curve).replace("\n", "\r\n"))
    assert (derived["algorithm"], derived["publicKey"].strip()) == ("ES384", public_pem(curve).strip())
    assert "\r" not in derived["publicKey"]
    edwards = await add(api, "import", type="OKP", privateKey=private_pem(ed25519.Ed25519PrivateKey.generate()))
    assert edwards["algorithm"] == "Ed25519"
    public = await add(api, "import", publicKey=public_pem(ec.generate_private_key(ec.SECP256R1())))
    assert (public["type"], public["hasPrivateKey"]) == ("EC", False)
    secret = "a secret of sufficient length, 0123456789"
    shared = await add(api, "import", type="HMAC", algorithm="HS256", secret=secret)
    assert shared.keys() == MEMBERS
    assert secret not in str(shared)


@pytest.mark.requirement("core-7-errors", "core-7-import")
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, {"[missing]key.type"}),
        ({"type": "RSA"}, {"[blank]key.publicKey"}),
        ({"type": "HMAC"}, {"[missing]key.algorithm", "[blank]key.secret"}),
        ({"type": "HMAC", "algorithm": "HS256", "secret": "short"}, {"[invalid]key.secret"}),
        ({"type": "HMAC", "algorithm": "RS256", "secret": "x" * 64}, {"[invalid]key.algorithm"}),
        ({"type": "Secret"}, {"[blank]key.secret"}),
        ({"type": "Secret", "secret": " ", "algorithm": "HS256"}, {"[blank]key.secret", "[invalid]key.algorithm"}),
        ({"type": "HMAC", "algorithm": "HS256", "secret": public_pem(RSA)}, {"[invalid]key.secret"}),
        ({"privateKey": private_pem(RSA)}, {"[missing]key.type"}),
        ({"type": "RSA", "privateKey": "nonsense"}, {"[invalid]key.privateKey"}),
        ({"type": "RSA", "privateKey": public_pem(RSA)}, {"[invalid]key.privateKey"}),
        ({"publicKey": private_pem(RSA)}, {"[invalid]key.publicKey"}),
        ({"certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}, {"[invalid]key.certificate"}),
        ({"type": "EC", "privateKey": private_pem(RSA)}, {"[invalid]key.type"}),
        ({"publicKey": "x" * 70_000}, {"[invalid]key.publicKey"}),
    ],
)
async def test_import_refuses_invalid_keys_without_echoing_them(api, wanted, expected) -> None:
    answer = await api.post("/api/key/import", json={"key": {"name": f"Key {new_id()}", **wanted}})
    assert codes(answer) == expected
    assert "BEGIN" not in answer.text


async def test_missing_members_of_generated_key_are_reported_together(api) -> None:
    for wanted, second in (({}, "[missing]key.algorithm"), ({"algorithm": "RS256"}, "[missing]key.length")):
        answer = await api.post("/api/key/generate", json={"key": wanted})
        assert codes(answer) == {"[blank]key.name", second}
    assert codes(await api.post("/api/key/generate", json={})) == {"[missing]key"}


@pytest.mark.requirement("core-7-update")
async def test_update_changes_only_name(service, api) -> None:
    made = await add(api, "generate", algorithm="ES256")
    before = await internals.store(service, "keys").get(None, made["id"])
    change = {
        "name": f"Renamed {new_id()}",
        "algorithm": "HS256",
        "type": "HMAC",
        "kid": "other",
        "secret": "x" * 64,
        "privateKey": private_pem(RSA),
        "publicKey": public_pem(RSA),
        "issuer": "other",
        "length": 5,
    }
    changed = (await api.put(f"/api/key/{made['id']}", json={"key": change})).json()["key"]
    assert changed == {**made, "name": change["name"], "lastUpdateInstant": changed["lastUpdateInstant"]}
    after = await internals.store(service, "keys").get(None, made["id"])
    assert after["privateKey"] == before["privateKey"]
    assert "secret" not in after
    other = await add(api, "generate", algorithm="HS256")
    taken = await api.put(f"/api/key/{other['id']}", json={"key": {"name": change["name"]}})
    assert codes(taken) == {"[duplicate]key.name"}
    assert codes(await api.put(f"/api/key/{other['id']}", json={"key": {}})) == {"[blank]key.name"}
    assert (await api.put(f"/api/key/{new_id()}", json={"key": {"name": "x"}})).status_code == 404
    assert (await api.patch(f"/api/key/{other['id']}", json={"key": {"name": "x"}})).status_code == 405


@pytest.mark.requirement("core-7-privateKey")
async def test_private_keys_are_sealed_at_rest(service, api) -> None:
    for wanted, member in (({"algorithm": "ES256"}, "privateKey"), ({"algorithm": "HS256"}, "secret")):
        made = await add(api, "generate", **wanted)
        plain = (await internals.store(service, "keys").get(None, made["id"]))[member]
        stored = await internals.database(service).collection("keys").find_one({"_id": made["id"]})
        assert plain not in str(stored)


@pytest.mark.requirement("core-7-delete")
async def test_key_in_use_cannot_be_deleted(api, tenant) -> None:
    def jwt(**members: Any) -> Document:
        return {"jwtConfiguration": members}

    hook = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1}
    uses = [
        ("tenant", f"/api/tenant/{tenant['id']}", "PATCH", jwt(accessTokenKeyId="#")),
        ("tenant", f"/api/tenant/{tenant['id']}", "PATCH", jwt(idTokenKeyId="#")),
        ("tenant", f"/api/tenant/{tenant['id']}", "PATCH", jwt(accessTokenVerificationKeyIds=["#"])),
        ("application", "/api/application", "POST", {"name": f"A {new_id()}", **jwt(accessTokenKeyId="#")}),
        ("application", "/api/application", "POST", {"name": f"A {new_id()}", **jwt(idTokenVerificationKeyIds=["#"])}),
        ("webhook", "/api/webhook", "POST", {**hook, "signatureConfiguration": {"enabled": True, "signingKeyId": "#"}}),
        ("webhook", "/api/webhook", "POST", {**hook, "sslCertificateKeyId": "#"}),
    ]
    for wrapper, path, method, members in uses:
        made = await add(api, "generate", algorithm="ES256")
        body = {wrapper: _named(members, made["id"])}
        answer = await api.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        assert codes(await api.delete(f"/api/key/{made['id']}")) == {"[inUse]keyId"}, members
        assert (await api.get(f"/api/key/{made['id']}")).status_code == 200
    free = await add(api, "generate", algorithm="ES256")
    assert (await api.delete(f"/api/key/{free['id']}")).status_code == 200
    assert (await api.get(f"/api/key/{free['id']}")).status_code == 404


CLIENT_SECRET_KEYS = {
    "092dbedc-30af-4149-9c61-b578f2c72f59": "HS256",
    "4b8f1c06-518e-45bd-9ac5-d549686ae02a": "HS384",
    "c753a44d-7f2e-48d3-bc4e-c2c16488a23b": "HS512",
}


@pytest.mark.requirement("core-13-18", "core-7-client-secret")
@pytest.mark.parametrize("key_id", CLIENT_SECRET_KEYS)
async def test_client_secret_keys_always_exist_and_are_immutable(service, api, key_id) -> None:
    path, algorithm = f"/api/key/{key_id}", CLIENT_SECRET_KEYS[key_id]
    shown = (await api.get(path)).json()["key"]
    assert shown.keys() == MEMBERS - {"kid"}
    assert (shown["id"], shown["type"], shown["algorithm"]) == (key_id, "HMAC", algorithm)
    assert shown in (await api.get("/api/key")).json()["keys"]
    search = {"name": shown["name"], "type": "HMAC", "algorithm": algorithm}
    assert (await api.get("/api/key/search", params=search)).json() == {"keys": [shown], "total": 1}
    assert codes(await api.put(path, json={"key": {"name": f"Other {new_id()}"}})) == {"[invalid]keyId"}
    assert codes(await api.delete(path)) == {"[invalid]keyId"}
    for way, body in (("generate", {}), ("import", {"type": "HMAC", "secret": "x" * 64})):
        taken = await api.post(
            f"/api/key/{way}/{key_id}", json={"key": {"name": new_id(), "algorithm": algorithm, **body}}
        )
        assert codes(taken) == {"[duplicate]keyId"}
    assert (await api.get(path)).json()["key"] == shown
    stored = await internals.store(service, "keys").get(None, key_id)
    assert not {"secret", "privateKey", "kid"} & stored.keys()


@pytest.mark.requirement("core-7-client-secret")
async def test_client_secret_key_signs_id_tokens_only(api, tenant) -> None:
    key_id = next(iter(CLIENT_SECRET_KEYS))
    hook = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1}
    signed = {**hook, "signatureConfiguration": {"enabled": True, "signingKeyId": key_id}}
    answer = await api.post("/api/webhook", json={"webhook": signed})
    assert codes(answer) == {"[invalid]webhook.signatureConfiguration.signingKeyId"}
    for name, expected in (("accessTokenKeyId", 400), ("idTokenKeyId", 200)):
        body = {"application": {"name": new_id(), "jwtConfiguration": {"enabled": True, name: key_id}}}
        answer = await api.post("/api/application", json=body, headers={"X-FusionAuth-TenantId": tenant["id"]})
        assert answer.status_code == expected, answer.text


@pytest.mark.requirement("core-7-type")
async def test_secret_key_is_stored_and_signs_nothing(service, api) -> None:
    made = await add(api, "import", type="Secret", secret="short")
    assert made.keys() == MEMBERS
    assert (made["type"], made["algorithm"]) == ("Secret", "None")
    assert (await internals.store(service, "keys").get(None, made["id"]))["secret"] == "short"
    stored = await internals.database(service).collection("keys").find_one({"_id": made["id"]})
    assert "short" not in str(stored)
    body = {"application": {"name": new_id(), "jwtConfiguration": {"accessTokenKeyId": made["id"]}}}
    answer = await api.post("/api/application", json=body)
    assert codes(answer) == {"[invalid]application.jwtConfiguration.accessTokenKeyId"}
    assert made["kid"] not in (await api.get("/.well-known/jwks.json")).text


@pytest.mark.requirement("attack-39", "core-7-privateKey")
async def test_no_response_contains_private_key(service, api) -> None:
    keys = [
        await add(api, "generate", algorithm="ES256"),
        await add(api, "generate", algorithm="HS256"),
        await add(api, "import", type="RSA", privateKey=private_pem(rsa.generate_private_key(65537, 2048))),
    ]
    secrets = []
    for key in keys:
        stored = await internals.store(service, "keys").get(None, key["id"])
        secrets.append(stored.get("privateKey") or stored["secret"])
    paths = ["/api/key", "/api/key/search?numberOfResults=10000", *(f"/api/key/{key['id']}" for key in keys)]
    for path in paths:
        text = (await api.get(path)).text
        assert "PRIVATE" not in text
        for secret in secrets:
            assert secret.splitlines()[len(secret.splitlines()) // 2] not in text


@pytest.mark.requirement("core-7-key-set")
async def test_key_set_contains_public_keys_only(service: app.Service, api, http) -> None:
    made = [await add(api, "generate", algorithm=algorithm) for algorithm in ("ES256", "Ed25519", "HS256")]
    listed = {"accessTokenVerificationKeyIds": [key["id"] for key in made]}
    body = {"application": {"name": new_id(), "jwtConfiguration": listed}}
    assert (await api.post("/api/application", json=body)).status_code == 200
    answer = (await http.get("/.well-known/jwks.json")).json()
    found = {key["kid"]: key for key in answer["keys"]}
    assert made[0]["kid"] in found
    assert made[1]["kid"] in found
    assert made[2]["kid"] not in found
    for key in answer["keys"]:
        assert key["use"] == "sig"
        assert not key.keys() & {"d", "p", "q", "dp", "dq", "qi", "k", "oth"}
    assert {"x5c", "x5t", "x5t#S256"} <= found[made[0]["kid"]].keys()
    read = KeySet.import_key_set(answer)
    assert len(read.keys) == len(answer["keys"])


@pytest.mark.requirement("core-7-search")
async def test_search(api) -> None:
    mark = new_id()
    for algorithm in ("ES256", "HS256", "ES384"):
        await add(api, "generate", algorithm=algorithm, name=f"{mark} {algorithm}")

    async def found(**search: Any) -> list[str]:
        by_query = (await api.get("/api/key/search", params={"name": mark, **search})).json()
        by_body = (await api.post("/api/key/search", json={"search": {"name": mark, **search}})).json()
        assert by_query == by_body
        assert by_query["total"] >= len(by_query["keys"])
        return [key["algorithm"] for key in by_query["keys"]]

    assert await found() == ["ES256", "ES384", "HS256"]
    assert await found(type="EC") == ["ES256", "ES384"]
    assert await found(algorithm="HS256") == ["HS256"]
    assert await found(type="RSA") == []
    assert await found(orderBy="insertInstant") == ["ES256", "HS256", "ES384"]
    assert await found(orderBy="type DESC, algorithm DESC") == ["HS256", "ES384", "ES256"]
    assert await found(orderBy="expiration", numberOfResults=1, startRow=1) != []
    assert codes(await api.get("/api/key/search", params={"orderBy": "secret"})) == {"[invalid]orderBy"}


def _named(value: Any, key_id: str) -> Any:
    """The members with `#` replaced by the id of a key."""
    if isinstance(value, dict):
        return {name: _named(member, key_id) for name, member in value.items()}
    if isinstance(value, list):
        return [_named(item, key_id) for item in value]
    return key_id if value == "#" else value
