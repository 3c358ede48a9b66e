"""Passkeys in the API: /api/webauthn."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx
import pytest

from identity.ids import base64url, fingerprint, new_id
from tests import internals, relying_party, two_factor
from tests.authenticator import BE, BS, EDDSA, ES384, ORIGIN, RELYING_PARTY, RS256, UP, UV, Passkey
from tests.conftest import SUPER_KEY, UNKNOWN_ID, checking_client
from tests.relying_party import RelyingParty
from tests.webhooks import subscribe

Document = dict[str, Any]

ENABLED = {
    "enabled": True,
    "relyingPartyId": RELYING_PARTY,
    "relyingPartyName": "Example",
    "bootstrapWorkflow": {"enabled": True},
    "reauthenticationWorkflow": {"enabled": True},
}


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    found = await relying_party.make(api)
    await found.configure_tenant(webAuthnConfiguration=ENABLED)
    return found


async def post(http: httpx.AsyncClient, path: str, body: Document, status: int = 200) -> Document:
    answer = await http.post(f"/api/webauthn/{path}", json=body)
    assert answer.status_code == status, (answer.status_code, answer.text)
    return dict(answer.json()) if answer.content else {}


async def register_start(key: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> Document:
    body = {"userId": rp.user["id"], "displayName": "Phone", "workflow": "general", **members}
    return dict((await post(key, "register/start", body))["options"])


async def register(key: httpx.AsyncClient, http: httpx.AsyncClient, rp: RelyingParty, passkey: Passkey) -> Document:
    created = passkey.create(await register_start(key, rp))
    return dict((await post(http, "register/complete", {**created, "userId": rp.user["id"]}))["credential"])


async def start(key: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> Document:
    body = {"applicationId": rp.client_id, "userId": rp.user["id"], "workflow": "bootstrap", **members}
    return dict((await post(key, "start", body))["options"])


def codes(body: Document) -> list[str]:
    fields = [entry for entries in body.get("fieldErrors", {}).values() for entry in entries]
    return sorted(entry["code"] for entry in [*fields, *body.get("generalErrors", [])])


async def refused(http: httpx.AsyncClient, path: str, body: Document) -> list[str]:
    return codes(await post(http, path, body, 400))


@pytest.fixture
async def passkey(key: httpx.AsyncClient, http: httpx.AsyncClient, rp: RelyingParty) -> Passkey:
    """A registered passkey of the user."""
    made = Passkey()
    await register(key, http, rp, made)
    return made


# Registration


@pytest.mark.requirement("passkeys-7")
async def test_options_of_a_registration_follow_the_tenant(key, rp) -> None:
    options = await register_start(key, rp, workflow="reauthentication", name="work")
    assert options["rp"] == {"id": RELYING_PARTY, "name": "Example"}
    handle = base64url(rp.user["id"].encode())
    assert options["user"] == {"id": handle, "displayName": "Phone", "name": "work"}
    assert options["authenticatorSelection"] == {
        "authenticatorAttachment": "platform",
        "requireResidentKey": False,
        "residentKey": "preferred",
        "userVerification": "required",
    }
    assert (options["attestation"], options["excludeCredentials"]) == ("none", [])
    assert (options["timeout"], options["extensions"]) == (180_000, {"credProps": True})
    assert [entry["alg"] for entry in options["pubKeyCredParams"]] == [-7, -8, -257, -35, -36, -258, -259]
    assert len(base64.urlsafe_b64decode(options["challenge"] + "=")) == 32
    general = await register_start(key, rp)
    assert general["user"]["name"] == rp.login_id
    assert "authenticatorAttachment" not in general["authenticatorSelection"]


@pytest.mark.requirement("passkeys-7")
@pytest.mark.parametrize(("bootstrap", "reauthentication", "attachment"), [
    ("platform", "platform", "platform"),
    ("crossPlatform", "crossPlatform", "cross-platform"),
    ("any", "platform", None),
    ("platform", "crossPlatform", None),
    ("crossPlatform", None, "cross-platform"),
    (None, "platform", "platform"),
])  # fmt: skip
async def test_general_passkey_has_the_attachment_that_the_enabled_workflows_agree_on(
    key, rp, bootstrap, reauthentication, attachment
) -> None:
    workflows = {"bootstrapWorkflow": bootstrap, "reauthenticationWorkflow": reauthentication}
    wanted = {
        name: {"enabled": False} if preference is None
        else {"enabled": True, "authenticatorAttachmentPreference": preference}
        for name, preference in workflows.items()
    }  # fmt: skip
    await rp.configure_tenant(webAuthnConfiguration=wanted)
    selection = (await register_start(key, rp))["authenticatorSelection"]
    assert selection.get("authenticatorAttachment") == attachment


@pytest.mark.requirement("passkeys-1")
@pytest.mark.parametrize(("algorithm", "attestation"), [
    (-7, "none"), (EDDSA, "none"), (ES384, "none"), (ES384, "packed"), (RS256, "packed"),
])  # fmt: skip
async def test_a_passkey_is_registered_and_shown(key, http, rp, algorithm, attestation) -> None:
    passkey = Passkey(algorithm, count=4, flags=UP | UV | BE | BS)
    options = await register_start(key, rp, userAgent="Browser 1.0")
    created = passkey.create(options, attestation=attestation)
    answer = await post(http, "register/complete", {**created, "userId": rp.user["id"]})
    credential = answer["credential"]
    assert credential == {
        "id": credential["id"],
        "tenantId": rp.tenant["id"],
        "userId": rp.user["id"],
        "credentialId": passkey.id,
        "publicKey": passkey.pem(),
        "algorithm": algorithm,
        "attestationType": {"none": "none", "packed": "self"}[attestation],
        "authenticatorSupportsUserVerification": True,
        "backupEligible": True,
        "backedUp": True,
        "discoverable": True,
        "displayName": "Phone",
        "name": rp.login_id,
        "relyingPartyId": RELYING_PARTY,
        "signCount": 4,
        "transports": ["internal"],
        "userAgent": "Browser 1.0",
        "insertInstant": credential["insertInstant"],
        "lastUseInstant": credential["insertInstant"],
    }
    assert (await key.get(f"/api/webauthn/{credential['id']}")).json() == answer
    listed = await key.get("/api/webauthn", params={"userId": rp.user["id"]})
    assert listed.json() == {"credentials": [credential]}
    excluded = (await register_start(key, rp))["excludeCredentials"]
    assert excluded == [{"id": passkey.id, "type": "public-key", "transports": ["internal"]}]


async def test_a_registration_is_used_once_and_by_its_user_alone(key, http, rp, api) -> None:
    passkey, other = Passkey(), await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    created = passkey.create(await register_start(key, rp))
    assert await refused(http, "register/complete", {**created, "userId": other["id"]}) == ["[invalid]userId"]
    used = ["[invalid]credential.response.clientDataJSON"]
    assert await refused(http, "register/complete", {**created, "userId": rp.user["id"]}) == used
    await register(key, http, rp, passkey)
    again = passkey.create(await register_start(key, rp))
    duplicate = await refused(http, "register/complete", {**again, "userId": rp.user["id"]})
    assert duplicate == ["[duplicate]credential.id"]


@pytest.mark.requirement("passkeys-4")
async def test_of_64_racers_one_registers(key, http, rp) -> None:
    body = {**Passkey().create(await register_start(key, rp)), "userId": rp.user["id"]}
    answers = await asyncio.gather(*(http.post("/api/webauthn/register/complete", json=body) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 63


async def test_challenges_serve_their_own_ceremony_and_tenant(key, http, rp, passkey, service, tenant) -> None:
    creation, request = await register_start(key, rp), await start(key, rp)
    unknown = ["[invalid]credential.response.clientDataJSON"]
    assert await refused(http, "login", passkey.get(creation)) == unknown
    crossed = Passkey().create({**request, "user": creation["user"]})
    assert await refused(http, "register/complete", {**crossed, "userId": rp.user["id"]}) == unknown
    elsewhere = {"X-FusionAuth-TenantId": tenant["id"]}
    async with checking_client(service.base_url, headers=elsewhere) as stranger:
        assert await refused(stranger, "login", passkey.get(request)) == unknown
    assert "user" in await post(http, "login", passkey.get(request))


async def test_challenges_expire_when_the_tenant_says(key, rp, passkey, service) -> None:
    names = ("webAuthnRegistrationChallengeTimeToLiveInSeconds", "webAuthnAuthenticationChallengeTimeToLiveInSeconds")
    await rp.configure_tenant(externalIdentifierConfiguration=dict.fromkeys(names, 77))
    redis = internals.redis(service)
    for kind, options in (
        ("webauthn-registration", await register_start(key, rp)),
        ("webauthn-authentication", await start(key, rp)),
    ):
        assert options["timeout"] == 77_000
        ttl = await redis.client.ttl(redis.key("ticket", kind, f"{{{fingerprint(options['challenge'])}}}"))
        assert 60 < ttl <= 77


async def test_the_start_of_a_registration_requires_user_names_and_workflow(key, rp) -> None:
    assert await refused(key, "register/start", {}) == [
        "[blank]displayName",
        "[missing]userId",
        "[missing]workflow",
    ]
    body = {"userId": UNKNOWN_ID, "displayName": "Phone", "workflow": "general"}
    assert await refused(key, "register/start", body) == ["[invalid]userId"]
    assert await refused(key, "register/start", {**body, "workflow": "other"}) == ["[invalid]workflow"]
    await rp.configure_tenant(webAuthnConfiguration={"enabled": False})
    body["userId"] = rp.user["id"]
    assert await refused(key, "register/start", body) == ["[WebAuthnDisabled]"]


@pytest.mark.requirement("passkeys-3")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"origin": "https://evil.example.org"}, "[invalid]origin"),
        ({"origin": "http://auth.example.com"}, "[invalid]origin"),
        ({"origin": "auth.example.com"}, "[invalid]origin"),
        ({"origin": "https://other.auth.example.com"}, "[invalid]credential.response.clientDataJSON"),
        ({"rpId": "example.com"}, "[invalid]rpId"),
        ({"credential.rpId": "example.com"}, "[invalid]credential.rpId"),
        ({"credential.type": "password"}, "[invalid]credential.type"),
        ({"credential.id": "AAAA"}, "[invalid]credential.id"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
async def test_confused_requests_are_refused(key, http, rp, passkey, changes, code) -> None:
    for path, body in (
        ("register/complete", {**Passkey().create(await register_start(key, rp)), "userId": rp.user["id"]}),
        ("login", passkey.get(await start(key, rp))),
        ("assert", passkey.get(await start(key, rp))),
    ):
        for name, value in changes.items():
            place, _, member = name.rpartition(".")
            (body[place] if place else body)[member] = value
        assert await refused(http, path, body) == [code], path


# Logins


@pytest.mark.requirement("passkeys-2")
async def test_a_passkey_logs_its_user_in(key, http, rp, passkey) -> None:
    options = await start(key, rp, state={"at": "the door"})
    assert options == {
        "allowCredentials": [{"id": passkey.id, "type": "public-key", "transports": ["internal"]}],
        "challenge": options["challenge"],
        "rpId": RELYING_PARTY,
        "timeout": 180_000,
        "userVerification": "required",
    }
    used = passkey.get(options)
    body = await post(http, "login", used)
    assert (body["user"]["id"], body["state"]) == (rp.user["id"], {"at": "the door"})
    claims = relying_party.claims(body["token"])
    assert (claims["aud"], claims["authenticationType"]) == (rp.client_id, "WebAuthn")
    (credential,) = (await key.get("/api/webauthn", params={"userId": rp.user["id"]})).json()["credentials"]
    assert (credential["signCount"], credential["lastUseInstant"] > credential["insertInstant"]) == (1, True)
    assert await refused(http, "login", used) == ["[invalid]credential.response.clientDataJSON"]


async def test_a_login_is_for_the_application_that_it_was_started_for(key, http, rp, passkey) -> None:
    used = passkey.get(await start(key, rp))
    assert await refused(http, "login", {**used, "applicationId": UNKNOWN_ID}) == ["[invalid]applicationId"]
    await post(http, "login", {**passkey.get(await start(key, rp)), "applicationId": rp.client_id.upper()})


@pytest.mark.requirement("passkeys-4")
async def test_of_64_concurrent_requests_one_logs_in(key, http, rp, passkey) -> None:
    body = {**passkey.get(await start(key, rp)), "noJWT": True}
    answers = await asyncio.gather(*(http.post("/api/webauthn/login", json=body) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 63


async def test_a_login_id_finds_the_user_and_is_recorded(key, http, rp, passkey) -> None:
    options = await start(key, rp, userId=None, loginId=rp.login_id)
    await post(http, "login", passkey.get(options))
    params = {"userId": rp.user["id"]}
    records = (await key.get("/api/system/login-record/search", params=params)).json()["logins"]
    assert (records[0]["loginId"], records[0]["loginIdType"]) == (rp.login_id, "email")


async def test_a_start_names_a_user_an_application_and_a_passkey(key, rp, passkey) -> None:
    body = {"applicationId": rp.client_id, "userId": rp.user["id"], "workflow": "bootstrap"}
    assert await refused(key, "start", {}) == ["[missing]applicationId", "[missing]workflow"]
    assert await refused(key, "start", {**body, "applicationId": UNKNOWN_ID}) == ["[invalid]applicationId"]
    assert await refused(key, "start", {**body, "userId": None}) == ["[blank]loginId"]
    assert await refused(key, "start", {**body, "userId": UNKNOWN_ID}) == ["[invalid]userId"]
    assert await refused(key, "start", {**body, "userId": None, "loginId": "x"}) == ["[invalid]loginId"]
    assert await refused(key, "start", {**body, "credentialId": UNKNOWN_ID}) == ["[invalid]credentialId"]
    assert await refused(key, "start", {**body, "workflow": "general"}) == ["[invalid]workflow"]


async def test_a_chosen_passkey_is_the_only_one_accepted(key, http, rp, passkey) -> None:
    other = Passkey()
    credential = await register(key, http, rp, other)
    options = await start(key, rp, credentialId=credential["id"])
    assert [entry["id"] for entry in options["allowCredentials"]] == [other.id]
    assert await refused(http, "login", passkey.get(options)) == ["[invalid]credential.id"]
    await post(http, "login", other.get(await start(key, rp, credentialId=credential["id"])))


async def test_a_passkey_of_another_user_is_refused(key, http, rp, api, passkey) -> None:
    stranger = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    theirs = Passkey()
    await register(key, http, RelyingParty(rp.tenant, rp.application, stranger, api), theirs)
    assert await refused(http, "login", theirs.get(await start(key, rp))) == ["[invalid]credential.id"]
    passkey.user_handle = theirs.user_handle
    assert await refused(http, "login", passkey.get(await start(key, rp))) == ["[invalid]credential.id"]


async def test_user_without_a_usable_passkey_cannot_start(key, http, rp) -> None:
    body = {"applicationId": rp.client_id, "userId": rp.user["id"], "workflow": "bootstrap"}
    assert await refused(key, "start", body) == ["[NoWebAuthnCredentials]"]
    verification = {"userVerificationRequirement": "discouraged"}
    settings = {**ENABLED, "bootstrapWorkflow": {**ENABLED["bootstrapWorkflow"], **verification}}
    await rp.configure_tenant(webAuthnConfiguration=settings)
    present = Passkey(flags=UP)
    created = present.create(await register_start(key, rp, workflow="bootstrap"))
    await post(http, "register/complete", {**created, "userId": rp.user["id"]})
    await post(http, "login", present.get(await start(key, rp)))
    assert await refused(key, "start", {**body, "workflow": "reauthentication"}) == ["[NoWebAuthnCredentials]"]


async def test_an_application_switches_its_workflows(key, rp, passkey) -> None:
    settings = {"enabled": True, "bootstrapWorkflow": {"enabled": False}, "reauthenticationWorkflow": {"enabled": True}}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"webAuthnConfiguration": settings}})
    body = {"applicationId": rp.client_id, "userId": rp.user["id"], "workflow": "bootstrap"}
    assert await refused(key, "start", body) == ["[WebAuthnDisabled]"]
    assert (await start(key, rp, workflow="reauthentication"))["allowCredentials"]


async def test_without_a_relying_party_id_that_of_the_page_counts(key, http, rp) -> None:
    await rp.configure_tenant(webAuthnConfiguration={**ENABLED, "relyingPartyId": None})
    passkey = Passkey()
    options = await register_start(key, rp)
    assert "id" not in options["rp"]
    created = passkey.create(options)
    await post(http, "register/complete", {**created, "userId": rp.user["id"]})
    options = await start(key, rp)
    assert "rpId" not in options
    assert await refused(http, "login", {**passkey.get(options), "rpId": "example.com"}) == ["[invalid]rpId"]
    await post(http, "login", passkey.get(await start(key, rp)))


@pytest.mark.requirement("passkeys-13")
async def test_a_second_factor_is_required_as_after_a_password(key, http, rp, passkey, clock) -> None:
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}})
    body = await post(http, "login", passkey.get(await start(key, rp)), 242)
    code = two_factor.code(clock.now())
    answer = await http.post("/api/two-factor/login", json={"twoFactorId": body["twoFactorId"], "code": code})
    assert answer.status_code == 200
    assert relying_party.claims(answer.json()["token"])["authenticationType"] == "WebAuthn"


async def test_a_deactivated_user_is_refused(key, http, rp, passkey) -> None:
    options = await start(key, rp)
    await key.delete(f"/api/user/{rp.user['id']}")
    await post(http, "login", passkey.get(options), 423)


# Cloned authenticators, events


@pytest.mark.requirement("passkeys-5")
async def test_a_counter_that_does_not_increase_is_refused_and_reported(key, http, rp, passkey, api, receiver) -> None:
    await post(http, "login", passkey.get(await start(key, rp)))
    await subscribe(api, rp.tenant, receiver.url, ["user.login.failed", "user.login.success"])
    passkey.step = 0
    refusal = await refused(http, "login", passkey.get(await start(key, rp)))
    assert refusal == ["[invalid]credential.response.authenticatorData"]
    passkey.step = 1
    await post(http, "login", passkey.get(await start(key, rp)))
    failed, success = sorted((one.event for one in await receiver.wait_for(2)), key=lambda event: event["type"])
    assert (failed["type"], failed["authenticationType"]) == ("user.login.failed", "WebAuthn")
    assert (failed["reason"], failed["user"]["id"]) == ({"code": "credentials"}, rp.user["id"])
    assert (success["type"], success["authenticationType"]) == ("user.login.success", "WebAuthn")
    rows = await api.get("/api/system/event-log/search", params={"message": rp.user["id"], "type": "Error"})
    (row,) = rows.json()["eventLogs"]
    assert "cloned" in row["message"]


async def test_a_wrong_signature_changes_nothing(key, http, rp, passkey) -> None:
    impostor = Passkey(credential_id=passkey.credential_id, count=8)
    refusal = await refused(http, "login", impostor.get(await start(key, rp)))
    assert refusal == ["[invalid]credential.response.signature"]
    (credential,) = (await key.get("/api/webauthn", params={"userId": rp.user["id"]})).json()["credentials"]
    assert credential["signCount"] == 0


async def test_rejections_are_recorded_where_the_tenant_debugs(key, http, rp, passkey, api) -> None:
    async def rows() -> list[str]:
        found = await api.get("/api/system/event-log/search", params={"message": rp.user["id"], "type": "Debug"})
        return [row["message"] for row in found.json()["eventLogs"]]

    passkey.flags = UP
    await refused(http, "login", passkey.get(await start(key, rp)))
    assert await rows() == []
    await rp.configure_tenant(webAuthnConfiguration={"debug": True})
    await refused(http, "login", passkey.get(await start(key, rp)))
    created = Passkey(flags=UP).create(await register_start(key, rp))
    await refused(http, "register/complete", {**created, "userId": rp.user["id"]})
    registered, used = await rows()
    assert "The authentication is not valid: User verification is required" in used
    assert "The registration is not valid: User verification is required" in registered


async def test_an_assertion_verifies_without_a_login(key, http, rp, passkey) -> None:
    used = passkey.get(await start(key, rp))
    answer = await http.post("/api/webauthn/assert", json=used)
    credential = answer.json()["credential"]
    assert (credential["credentialId"], credential["signCount"], answer.cookies.jar._cookies) == (passkey.id, 1, {})
    assert await refused(http, "assert", used) == ["[invalid]credential.response.clientDataJSON"]
    passkey.step = 0
    refusal = await refused(http, "assert", passkey.get(await start(key, rp)))
    assert refusal == ["[invalid]credential.response.authenticatorData"]


# Management


async def test_passkeys_are_deleted_one_by_one_and_by_user(key, http, rp) -> None:
    made = [await register(key, http, rp, Passkey()) for _ in range(3)]
    assert (await key.delete(f"/api/webauthn/{made[0]['id']}")).status_code == 200
    assert (await key.delete(f"/api/webauthn/{made[0]['id']}")).status_code == 404
    assert (await key.get(f"/api/webauthn/{made[0]['id']}")).status_code == 404
    params = {"userId": rp.user["id"]}
    assert (await key.delete("/api/webauthn", params=params)).status_code == 200
    assert (await key.get("/api/webauthn", params=params)).json() == {"credentials": []}
    for method in ("GET", "DELETE"):
        assert codes((await key.request(method, "/api/webauthn")).json()) == ["[missing]userId"]
        bad = await key.request(method, "/api/webauthn", params={"userId": "x"})
        assert codes(bad.json()) == ["[couldNotConvert]userId"]
        assert (await key.request(method, "/api/webauthn", params={"userId": UNKNOWN_ID})).status_code == 404


async def test_a_key_of_all_tenants_needs_no_tenant(key, http, rp, service, tenant) -> None:
    made = await register(key, http, rp, Passkey())
    path, params = f"/api/webauthn/{made['id']}", {"userId": rp.user["id"]}
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        assert (await everywhere.get(path)).json() == {"credential": made}
        assert (await everywhere.get("/api/webauthn", params=params)).json() == {"credentials": [made]}
        assert (await everywhere.get(f"/api/webauthn/{UNKNOWN_ID}")).status_code == 404
        assert (await everywhere.delete(path)).status_code == 200
        assert (await everywhere.get(path)).status_code == 404
        await register(everywhere, http, rp, Passkey())
        assert (await everywhere.delete("/api/webauthn", params=params)).status_code == 200


async def test_passkeys_go_with_their_user(key, http, rp, service) -> None:
    made = await register(key, http, rp, Passkey())
    await key.delete(f"/api/user/{rp.user['id']}", params={"hardDelete": "true"})
    assert await internals.store(service, "webauthn_credentials").find(rp.tenant["id"], made["id"]) is None


@pytest.mark.requirement("passkeys-8")
async def test_second_tenant_sees_and_changes_nothing(key, http, rp, tenant_api, passkey) -> None:
    (credential,) = (await key.get("/api/webauthn", params={"userId": rp.user["id"]})).json()["credentials"]
    path, params = f"/api/webauthn/{credential['id']}", {"userId": rp.user["id"]}
    for method in ("GET", "DELETE"):
        assert (await tenant_api.request(method, path)).status_code == 404
        assert (await tenant_api.request(method, "/api/webauthn", params=params)).status_code == 404
    body = {"userId": rp.user["id"], "displayName": "Phone", "workflow": "general"}
    assert await refused(tenant_api, "register/start", body) == ["[invalid]userId"]
    body = {"applicationId": rp.client_id, "userId": rp.user["id"], "workflow": "bootstrap"}
    assert await refused(tenant_api, "start", body) == ["[invalid]applicationId"]
    assert await refused(tenant_api, "import", {"credentials": [imported(rp, Passkey())]}) == [
        "[invalid]credentials[0].userId"
    ]
    assert (await key.get(path)).status_code == 200


# Import


def imported(rp: RelyingParty, passkey: Passkey, **members: Any) -> Document:
    usual = {
        "algorithm": passkey.algorithm,
        "authenticatorSupportsUserVerification": True,
        "credentialId": passkey.id,
        "displayName": "Key",
        "name": "imported",
        "publicKey": passkey.pem(),
        "relyingPartyId": RELYING_PARTY,
        "userId": rp.user["id"],
    }
    return {**usual, **members}


@pytest.mark.requirement("passkeys-9")
async def test_imported_passkeys_log_in(key, http, rp) -> None:
    passkeys = [Passkey(algorithm, count=9) for algorithm in (-7, EDDSA, ES384, RS256)]
    rows = [imported(rp, one, signCount=9, insertInstant=7, data={"x": 1}, id=new_id()) for one in passkeys]
    await post(key, "import", {"credentials": rows, "validateDbConstraints": True})
    found = (await key.get("/api/webauthn", params={"userId": rp.user["id"]})).json()["credentials"]
    assert {one["id"] for one in found} == {row["id"] for row in rows}
    for one in found:
        defaults = (one["attestationType"], one["discoverable"], one["data"], one["insertInstant"])
        assert defaults == ("none", False, {"x": 1}, 7)
        assert not {"backedUp", "backupEligible"} & one.keys()
    for one in passkeys:
        await post(http, "login", one.get(await start(key, rp)))


@pytest.mark.requirement("passkeys-9")
async def test_an_import_names_every_problem_and_stores_nothing(key, http, rp, passkey) -> None:
    good, other = Passkey(), Passkey(EDDSA)
    rows = [
        imported(rp, good),
        imported(rp, other, algorithm=-7),
        imported(rp, Passkey(), algorithm=-47, relyingPartyId="https://x", userId=UNKNOWN_ID),
        imported(rp, Passkey(), publicKey="no key"),
    ]
    assert await refused(key, "import", {"credentials": rows}) == [
        "[invalid]credentials[1].publicKey",
        "[invalid]credentials[2].algorithm",
        "[invalid]credentials[2].relyingPartyId",
        "[invalid]credentials[2].userId",
        "[invalid]credentials[3].publicKey",
    ]
    twice = {"credentials": [imported(rp, good), imported(rp, good)]}
    assert await refused(key, "import", twice) == ["[duplicate]credentials[1].credentialId"]
    known = {"credentials": [imported(rp, good), imported(rp, passkey)]}
    assert await refused(key, "import", known) == ["[duplicate]credentials.credentialId"]
    assert await refused(key, "import", {"credentials": []}) == ["[empty]credentials"]
    assert await refused(key, "import", {}) == ["[missing]credentials"]
    found = (await key.get("/api/webauthn", params={"userId": rp.user["id"]})).json()["credentials"]
    assert [one["credentialId"] for one in found] == [passkey.id]


async def test_without_the_feature_there_are_no_passkeys(build, rp) -> None:
    async with (
        build(license__features="{webAuthn: false}") as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client,
    ):
        body = {"userId": UNKNOWN_ID, "displayName": "Phone", "workflow": "general"}
        assert await refused(client, "register/start", body) == ["[NotLicensed]"]
        assert await refused(client, "login", {}) == ["[NotLicensed]"]


async def test_the_relying_party_id_is_a_domain(rp, key) -> None:
    for text in ("https://example.com", "example.com:443", "-a.com", "192.0.2.1"):
        body = {"tenant": {"webAuthnConfiguration": {"relyingPartyId": text}}}
        answer = await key.patch(f"/api/tenant/{rp.tenant['id']}", json=body)
        assert codes(answer.json()) == ["[invalid]tenant.webAuthnConfiguration.relyingPartyId"], text
    await rp.configure_tenant(webAuthnConfiguration={"relyingPartyId": " Auth.Example.com "})
    answer = await key.get(f"/api/tenant/{rp.tenant['id']}")
    assert answer.json()["tenant"]["webAuthnConfiguration"]["relyingPartyId"] == ORIGIN.removeprefix("https://")
