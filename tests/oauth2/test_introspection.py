"""Introspection (RFC 7662): clients, tokens, responses and errors."""

from __future__ import annotations

import asyncio
import base64

import pytest

from identity.ids import new_id, new_secret
from identity.store.documents import Documents
from identity.store.refresh_tokens import RefreshTokens
from tests import internals, relying_party
from tests.relying_party import claims

INACTIVE = {"active": False}


async def introspect(rp, http, token: str | None, *, path: str = "", **form: str | None):
    merged = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token, **form}
    given = {name: value for name, value in merged.items() if value is not None}
    answer = await http.post(f"{path}/oauth2/introspect", data=given)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    assert answer.headers["Content-Type"] == "application/json"
    return answer


async def introspection(rp, http, token: str, **form: str | None) -> dict:
    answer = await introspect(rp, http, token, **form)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer, status: int, error: str, reason: str) -> None:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert (body["error"], body["error_reason"]) == (error, reason)
    assert body.keys() == {"error", "error_reason", "error_description"}
    assert answer.headers.get("WWW-Authenticate") == ('Basic realm="oauth2"' if status == 401 else None)


@pytest.mark.requirement("contract-device-9")
async def test_access_token_is_described_with_all_claims(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    answer = await introspection(rp, http, tokens["access_token"])
    assert answer == {"active": True, **claims(tokens["access_token"])}
    assert answer["active"] is True
    assert answer["applicationId"] == answer["aud"] == rp.client_id
    assert answer["sub"] == rp.user["id"]
    assert answer["tid"] == rp.tenant["id"]
    assert answer["iss"] == rp.tenant["issuer"]
    assert answer["authenticationType"] == "PASSWORD"
    assert answer["scope"] == "openid offline_access"
    assert answer["roles"] == []
    assert (answer["tty"], answer["gty"]) == ("at", ["authorization_code"])
    assert answer["sid"] == tokens["refresh_token_id"]
    # Seconds, not milliseconds.
    assert all(0 < answer[name] < 10**10 for name in ("auth_time", "exp", "iat"))
    assert answer["exp"] - answer["iat"] == 3600
    assert "alg" not in answer
    assert "kid" not in answer


@pytest.mark.requirement("contract-device-9")
async def test_compatible_application_gets_user_claims(rp, browser, http, api):
    await rp.configure(scopeHandlingPolicy="Compatibility")
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id, username=f"u{new_id()}")
    answer = await introspection(rp, http, (await rp.tokens(http, browser, scope=None))["access_token"])
    assert answer["email"] == rp.login_id
    assert answer["email_verified"] is True
    assert answer["preferred_username"] == rp.user["username"]
    assert "scope" not in answer


@pytest.mark.requirement("contract-device-9")
async def test_id_token_is_described_with_all_claims(rp, browser, http):
    token = (await rp.tokens(http, browser, nonce="n"))["id_token"]
    for form in ({}, {"token_type_hint": "id_token"}):
        assert await introspection(rp, http, token, **form) == {"active": True, **claims(token)}


async def test_refresh_token_is_described_by_exp_with_the_hint_only(rp, browser, http, service):
    tokens = await rp.tokens(http, browser)
    answer = await introspection(rp, http, tokens["refresh_token"], token_type_hint="refresh_token")
    record = await internals.store(service, "refresh_tokens").find(rp.tenant["id"], tokens["refresh_token_id"])
    assert answer == {"active": True, "exp": record["expiresAt"] // 1000}
    assert await introspection(rp, http, tokens["refresh_token"]) == INACTIVE


async def test_token_matching_the_hint_is_described(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    for kind in ("access_token", "id_token", "refresh_token"):
        assert (await introspection(rp, http, tokens[kind], token_type_hint=kind))["active"] is True


@pytest.mark.parametrize("kind", ["access_token", "id_token", "refresh_token"])
async def test_attack_27_wrong_hint_is_rejected(rp, browser, http, kind):
    tokens = await rp.tokens(http, browser)
    for hint in {"access_token", "id_token", "refresh_token"} - {kind}:
        answer = await introspect(rp, http, tokens[kind], token_type_hint=hint)
        refused(answer, 400, "invalid_request", "token_type_hint_mismatch")


@pytest.mark.requirement("error-unsupported_token_type")
async def test_unknown_hint_is_refused(rp, browser, http):
    token = (await rp.tokens(http, browser))["access_token"]
    for hint in ("magic", "ACCESS_TOKEN", "urn:ietf:params:oauth:token-type:access_token"):
        answer = await introspect(rp, http, token, token_type_hint=hint)
        refused(answer, 400, "unsupported_token_type", "unsupported_token_type")


async def test_empty_hint_is_ignored(rp, browser, http):
    token = (await rp.tokens(http, browser))["access_token"]
    assert (await introspection(rp, http, token, token_type_hint=""))["active"] is True


@pytest.mark.requirement("contract-device-7", "reason-missing_token")
async def test_token_is_required(rp, http):
    for token in (None, ""):
        refused(await introspect(rp, http, token), 400, "invalid_request", "missing_token")


@pytest.mark.requirement("contract-device-8")
@pytest.mark.parametrize("hint", [None, "access_token", "id_token", "refresh_token"])
@pytest.mark.parametrize("token", ["x", "a.b.c", "..", "a" * 20_000, "é.x.y", "eyJhbGciOiJub25lIn0.e30.", " "])
async def test_malformed_token_is_not_active(rp, http, token, hint):
    assert await introspection(rp, http, token, token_type_hint=hint) == INACTIVE


async def test_changed_token_is_not_active(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    for kind in ("access_token", "id_token"):
        head, body, signature = tokens[kind].split(".")
        flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
        assert await introspection(rp, http, f"{head}.{body}.{flipped}") == INACTIVE
        none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
        assert await introspection(rp, http, f"{none}.{body}.") == INACTIVE


async def test_changed_refresh_token_is_not_active(rp, browser, http):
    value = (await rp.tokens(http, browser))["refresh_token"]
    forged = value[:32] + new_secret(24)
    assert await introspection(rp, http, forged, token_type_hint="refresh_token") == INACTIVE


@pytest.mark.requirement("contract-device-8")
async def test_expired_tokens_are_not_active(rp, browser, http, clock):
    await rp.configure_tenant(jwtConfiguration={"refreshTokenTimeToLiveInMinutes": 30})
    tokens = await rp.tokens(http, browser)
    clock.advance(seconds=1801)
    assert await introspection(rp, http, tokens["refresh_token"], token_type_hint="refresh_token") == INACTIVE
    assert (await introspection(rp, http, tokens["access_token"]))["active"] is True
    clock.advance(seconds=1800)
    for kind in ("access_token", "id_token"):
        assert await introspection(rp, http, tokens[kind]) == INACTIVE


@pytest.mark.requirement("contract-device-8")
async def test_attack_20_revoked_tokens_are_not_active(rp, browser, http):
    code = await rp.code(browser)
    tokens = (await rp.exchange(http, code)).json()
    assert (await introspection(rp, http, tokens["access_token"]))["active"] is True
    await rp.exchange(http, code)
    for kind in ("access_token", "id_token", "refresh_token"):
        hint = kind if kind == "refresh_token" else None
        assert await introspection(rp, http, tokens[kind], token_type_hint=hint) == INACTIVE


async def test_access_token_can_be_revoked_by_jti(rp, browser, http, service):
    one, other = [(await rp.tokens(http, browser))["access_token"] for _ in range(2)]
    await internals.store(service, "revocations").revoke(rp.tenant["id"], [claims(one)["jti"]], 60)
    assert await introspection(rp, http, one) == INACTIVE
    assert (await introspection(rp, http, other))["active"] is True


async def test_rotated_refresh_token_is_active_during_the_grace_period(rp, browser, http, clock):
    one_time = {"gracePeriodInSeconds": 10}
    await rp.configure_tenant(
        jwtConfiguration={"refreshTokenUsagePolicy": "OneTimeUse", "refreshTokenOneTimeUseConfiguration": one_time}
    )
    first = (await rp.tokens(http, browser))["refresh_token"]
    second = (await rp.refresh(http, first)).json()["refresh_token"]
    for value in (first, second):
        assert (await introspection(rp, http, value, token_type_hint="refresh_token"))["active"] is True
    clock.advance(seconds=11)
    assert await introspection(rp, http, first, token_type_hint="refresh_token") == INACTIVE
    assert (await introspection(rp, http, second, token_type_hint="refresh_token"))["active"] is True
    await rp.configure_tenant(jwtConfiguration={"refreshTokenUsagePolicy": "Reusable"})
    assert await introspection(rp, http, first, token_type_hint="refresh_token") == INACTIVE


@pytest.mark.requirement("attack-30", "contract-device-11", "reason-client_id_mismatch")
@pytest.mark.parametrize("kind", ["access_token", "id_token", "refresh_token"])
async def test_attack_30_token_of_another_client_is_rejected_without_details(rp, browser, http, api, kind):
    other = await relying_party.make(api, tenant=rp.tenant)
    token = (await other.tokens(http, browser))[kind]
    for hint in ("access_token", "id_token", "refresh_token"):
        answer = await introspect(rp, http, token, token_type_hint=hint)
        refused(answer, 401, "invalid_client", "client_id_mismatch")
        assert other.user["id"] not in answer.text


@pytest.mark.requirement("attack-30")
@pytest.mark.parametrize("kind", ["access_token", "id_token", "refresh_token"])
async def test_attack_30_token_of_another_tenant_is_inactive(rp, browser, http, api, kind):
    other = await relying_party.make(api)
    token = (await other.tokens(http, browser))[kind]
    for hint in (None, "access_token", "id_token", "refresh_token"):
        assert await introspection(rp, http, token, token_type_hint=hint) == INACTIVE


@pytest.mark.parametrize("query", [{"hardDelete": "true"}, {}])
async def test_attack_29_token_of_a_deleted_user_is_inactive_immediately(rp, browser, http, api, query):
    tokens = await rp.tokens(http, browser)
    assert (await introspection(rp, http, tokens["access_token"]))["active"] is True
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", params=query, headers=headers)).status_code == 200
    for kind in ("access_token", "id_token", "refresh_token"):
        hint = kind if kind == "refresh_token" else None
        assert await introspection(rp, http, tokens[kind], token_type_hint=hint) == INACTIVE


async def test_attack_29_token_of_an_expired_user_is_inactive(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"expiry": 1}})
    for kind in ("access_token", "refresh_token"):
        assert await introspection(rp, http, tokens[kind], token_type_hint=kind) == INACTIVE


async def test_attack_29_inactive_client_cannot_introspect(rp, browser, http, api):
    token = (await rp.tokens(http, browser))["access_token"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/application/{rp.client_id}", headers=headers)).status_code == 200
    refused(await introspect(rp, http, token), 401, "invalid_client", "invalid_client_id")


async def test_attack_29_client_of_a_deleted_tenant_cannot_introspect(rp, browser, http, api):
    token = (await rp.tokens(http, browser))["access_token"]
    assert (await api.delete(f"/api/tenant/{rp.tenant['id']}", params={"async": "true"})).status_code in {200, 202}
    refused(await introspect(rp, http, token), 401, "invalid_client", "invalid_client_id")


@pytest.mark.requirement("attack-31")
async def test_attack_31_responses_are_not_cached(rp, browser, http, api):
    """The same token, asked for by others, with other hints and later, is judged anew each time."""
    other = await relying_party.make(api, tenant=rp.tenant)
    tokens = await rp.tokens(http, browser)
    token = tokens["access_token"]
    for _ in range(2):
        assert (await introspection(rp, http, token))["active"] is True
        refused(await introspect(other, http, token), 401, "invalid_client", "client_id_mismatch")
        answer = await introspect(rp, http, token, token_type_hint="id_token")
        refused(answer, 400, "invalid_request", "token_type_hint_mismatch")


@pytest.mark.requirement("contract-device-7")
async def test_secret_is_accepted_in_the_header(rp, browser, http):
    token = (await rp.tokens(http, browser))["access_token"]
    answer = await http.post("/oauth2/introspect", data={"token": token}, auth=(rp.client_id, rp.secret))
    assert answer.json()["active"] is True


async def test_tenant_parameter_must_match_the_client(rp, browser, http, api):
    token = (await rp.tokens(http, browser))["access_token"]
    tenant_id = rp.tenant["id"]
    assert (await introspection(rp, http, token, tenantId=tenant_id))["active"] is True
    assert (await introspect(rp, http, token, path=f"/{tenant_id}")).json()["active"] is True
    other = (await relying_party.make(api)).tenant["id"]
    refused(await introspect(rp, http, token, tenantId=other), 400, "invalid_request", "invalid_tenant_id")
    refused(await introspect(rp, http, token, path=f"/{other}"), 400, "invalid_request", "invalid_tenant_id")


@pytest.mark.requirement("contract-device-7")
async def test_policy_decides_whether_the_client_has_to_authenticate(rp, browser, http):
    token = (await rp.tokens(http, browser))["access_token"]
    anonymous = {"client_secret": None}
    for policy in ("Required", "NotRequiredWhenUsingPKCE"):
        await rp.configure(clientAuthenticationPolicy=policy)
        answer = await introspect(rp, http, token, **anonymous)
        refused(answer, 401, "invalid_client", "client_authentication_missing")
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    assert (await introspection(rp, http, token, **anonymous))["active"] is True
    answer = await introspect(rp, http, token, client_secret="wrong")
    refused(answer, 401, "invalid_client", "invalid_client_authentication")


@pytest.mark.requirement("reason-invalid_client_authentication_scheme")
async def test_attacks_24_and_25_authentication_is_that_of_the_token_endpoint(rp, http):
    refused(await introspect(rp, http, "x", client_secret=""), 401, "invalid_client", "missing_client_secret")
    refused(await introspect(rp, http, "x", client_id=None), 400, "invalid_request", "missing_client_id")
    refused(await introspect(rp, http, "x", client_id=new_id()), 401, "invalid_client", "invalid_client_id")
    form = {"token": "x"}
    auth = (rp.client_id, rp.secret)
    answer = await http.post("/oauth2/introspect", data={**form, "client_secret": "other"}, auth=auth)
    refused(answer, 401, "invalid_client", "invalid_client_authentication")
    answer = await http.post("/oauth2/introspect", data={**form, "client_id": new_id()}, auth=auth)
    refused(answer, 401, "invalid_client", "client_id_mismatch")
    answer = await http.post("/oauth2/introspect", data=form, headers={"Authorization": "Bearer x"})
    refused(answer, 401, "invalid_client", "invalid_client_authentication_scheme")


async def test_client_is_authenticated_before_the_token_is_examined(rp, browser, http):
    token = (await rp.tokens(http, browser))["access_token"]
    for shown, hint in ((token, None), (token, "magic"), (None, None)):
        answer = await introspect(rp, http, shown, token_type_hint=hint, client_secret="wrong")
        refused(answer, 401, "invalid_client", "invalid_client_authentication")


async def test_request_is_a_form_by_post_with_each_parameter_once(rp, browser, http):
    token = (await rp.tokens(http, browser))["access_token"]
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token}
    refused(await http.post("/oauth2/introspect", json=form), 400, "invalid_request", "unknown")
    answer = await http.post("/oauth2/introspect", params=form, data={"a": "b"})
    refused(answer, 400, "invalid_request", "missing_client_id")
    answer = await http.post("/oauth2/introspect", data={**form, "token": [token, token]})
    refused(answer, 400, "invalid_request", "unknown")
    assert (await http.get("/oauth2/introspect", params=form)).status_code == 405


@pytest.mark.requirement("oauth-12-22")
async def test_access_token_needs_one_redis_query_and_no_mongodb_query(rp, browser, http, service, monkeypatch):
    token = (await rp.tokens(http, browser))["access_token"]
    await introspection(rp, http, token)
    questions: list[str] = []
    ids = (rp.tenant["id"], rp.client_id, rp.user["id"])
    for store, name in ((Documents, "_load"), (Documents, "find_all"), (RefreshTokens, "find_by_value")):
        monkeypatch.setattr(store, name, _noted(questions, name, getattr(store, name), ids))
    client = type(internals.redis(service).client)
    monkeypatch.setattr(client, "execute_command", _noted(questions, "redis", client.execute_command, ids))
    answers = await asyncio.gather(*(introspection(rp, http, token) for _ in range(5)))
    assert all(answer["active"] for answer in answers)
    assert questions == ["redis"] * 5
    internals.store(service, "users").invalidate(rp.user["id"])
    await introspection(rp, http, token)
    assert questions[5:] == ["_load", "redis"]


def _noted(questions: list[str], name: str, original, ids: tuple[str, ...]):
    """The method, which notes each call that is about one of these objects; counts for charts are written later."""

    def call(self, *arguments, **options):
        text = str(arguments)
        if ":activity:" not in text and any(one in text for one in ids):
            questions.append(name)
        return original(self, *arguments, **options)

    return call


async def test_tokens_and_secrets_are_not_logged(rp, browser, http, capsys):
    tokens = await rp.tokens(http, browser)
    for kind in ("access_token", "id_token", "refresh_token"):
        await introspection(rp, http, tokens[kind], token_type_hint=kind)
    out, err = capsys.readouterr()
    for secret in (rp.secret, tokens["access_token"], tokens["id_token"], tokens["refresh_token"]):
        assert secret not in out + err


ALONE = {"client_id": None, "client_secret": None}


@pytest.mark.requirement("audit-b4-introspection")
async def test_token_identifies_its_client_without_required_authentication(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    for name in ("access_token", "id_token"):
        answer = await introspect(rp, http, tokens[name], **ALONE)
        refused(answer, 401, "invalid_client", "client_authentication_missing")
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    for name in ("access_token", "id_token"):
        assert await introspection(rp, http, tokens[name], **ALONE) == {"active": True, **claims(tokens[name])}
    head, body, signature = tokens["access_token"].split(".")
    assert await introspection(rp, http, f"{head}.{body}.{signature[:-8]}AAAAAAAA", **ALONE) == INACTIVE


@pytest.mark.requirement("audit-b4-introspection")
async def test_token_without_client_is_rejected(rp, browser, http):
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    tokens = await rp.tokens(http, browser)
    for token in ("nonsense", tokens["refresh_token"]):
        refused(await introspect(rp, http, token, **ALONE), 400, "invalid_request", "missing_client_id")
    answer = await introspect(rp, http, tokens["access_token"], client_id=None)
    refused(answer, 400, "invalid_request", "missing_client_id")
    answer = await introspect(rp, http, tokens["access_token"], **ALONE, tenantId=new_id())
    refused(answer, 400, "invalid_request", "invalid_tenant_id")
