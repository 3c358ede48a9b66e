"""identity admin: what an administrator does from a shell, through the API and without it."""

from __future__ import annotations

import io
import re
import time
import types

import httpx
import pytest

from identity.cli import exit_codes
from identity.cli.admin import log_tails
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.ids import new_id
from tests import relying_party, two_factor
from tests.conftest import MANAGER_KEY, SUPER_KEY, UNKNOWN_ID
from tests.relying_party import PASSWORD


def email() -> str:
    return f"{new_id()}@example.com"


async def log_in(api, login_id: str, password: str, application_id: str = ADMINISTRATOR_APPLICATION_ID):
    body = {"loginId": login_id, "password": password, "applicationId": application_id}
    return await api.post("/api/login", json=body)


@pytest.mark.requirement("ship-4")
async def test_new_administrator_logs_in_with_the_printed_password(identity, api):
    address = email()
    done = await identity("admin", "create-admin", address)
    password = done.out.rpartition("Password: ")[2].strip()
    answer = await log_in(api, address, password)
    assert answer.status_code == 200, answer.text
    (registration,) = answer.json()["user"]["registrations"]
    assert registration["roles"] == ["admin"]


@pytest.mark.requirement("ship-4")
async def test_existing_user_becomes_an_administrator_and_keeps_the_password(identity, api):
    address = email()
    await api.post("/api/user", json={"user": {"email": address, "password": PASSWORD}})
    for _ in range(2):
        assert "password" not in (await identity("admin", "create-admin", address, "--json")).json
    assert (await log_in(api, address, PASSWORD)).json()["user"]["registrations"][0]["roles"] == ["admin"]


@pytest.mark.requirement("ship-4")
async def test_password_is_read_from_standard_input_and_not_printed(identity, api, rp, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("a password of standard input\n"))
    arguments = ("reset-password", rp.user["email"], "--tenant", rp.tenant["name"], "--password-stdin")
    done = await identity("admin", *arguments)
    assert (done.code, "standard input" in done.out) == (0, False)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    body = {"loginId": rp.user["email"], "password": "a password of standard input", "applicationId": rp.client_id}
    assert (await api.post("/api/login", json=body, headers=headers)).status_code == 200


@pytest.mark.requirement("ship-4")
async def test_unlock_ends_a_lock_out(identity, api, rp):
    body = {"userAction": {"name": f"Lock {new_id()}", "temporal": True, "preventLogin": True}}
    definition = (await api.post("/api/user-action", json=body)).json()["userAction"]
    lock = {"userActionId": definition["id"], "tooManyAttempts": 2, "actionDuration": 5}
    await rp.configure_tenant(failedAuthenticationConfiguration=lock)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    login = {"loginId": rp.user["email"], "password": "wrong", "applicationId": rp.client_id}
    for _ in range(2):
        await api.post("/api/login", json=login, headers=headers)
    assert (await api.post("/api/login", json={**login, "password": PASSWORD}, headers=headers)).status_code == 409
    done = await identity("admin", "unlock", rp.user["email"], "--tenant", rp.tenant["id"], "--json")
    assert done.json == {"userId": rp.user["id"], "canceled": 1}
    assert (await api.post("/api/login", json={**login, "password": PASSWORD}, headers=headers)).status_code == 200


@pytest.mark.requirement("ship-4")
async def test_user_who_lost_the_second_factor_logs_in_again(identity, api, key, rp, clock):
    code = two_factor.code(clock.now())
    method = {"method": "authenticator", "secret": two_factor.SECRET, "code": code}
    assert (await key.post(f"/api/user/two-factor/{rp.user['id']}", json=method)).status_code == 200
    assert (await rp.log_in_by_api(key)).status_code == 242
    done = await identity("admin", "remove-second-factors", rp.user["email"], "--tenant", rp.tenant["id"], "--json")
    assert done.json == {"userId": rp.user["id"], "removed": 1}
    assert (await rp.log_in_by_api(key)).status_code == 200
    assert (await key.get(f"/api/user/two-factor/recovery-code/{rp.user['id']}")).json() == {"recoveryCodes": []}


@pytest.mark.requirement("ship-4")
async def test_api_key_has_the_stated_tenant_permissions_and_end(identity, http, tenant):
    arguments = ("create-api-key", "ci", "--tenant", tenant["name"], "--permission", "get:/api/user", "--days", "2")
    key = (await identity("admin", *arguments, "--json")).json
    assert key["permissions"]["endpoints"] == {"/api/user": ["GET"]}
    assert key["tenantId"] == tenant["id"]
    assert 1.9 < (key["expirationInstant"] / 1000 - time.time()) / 86_400 < 2.1
    headers = {"Authorization": key["key"]}
    assert (await http.get(f"/api/user/{UNKNOWN_ID}", headers=headers)).status_code == 404
    assert (await http.get("/api/group", headers=headers)).status_code == 401


@pytest.mark.requirement("ship-5")
async def test_administrator_without_password_and_without_api_key_recovers_both(locally, api, http, manager):
    address = email()
    await api.post("/api/user", json={"user": {"email": address, "password": PASSWORD}})
    changed = (await locally("admin", "reset-password", address, "--json")).json
    assert (await log_in(api, address, changed["password"], UNKNOWN_ID)).status_code != 404
    assert (await log_in(api, address, PASSWORD, UNKNOWN_ID)).status_code != 200
    key = (await locally("admin", "create-api-key", "after the loss", "--json")).json
    headers = {"Authorization": key["key"]}
    assert (await http.get("/api/tenant", headers=headers)).status_code == 200
    assert (await manager.get(f"/api/api-key/{key['id']}")).status_code == 200
    events = (await locally("admin", "tail", "events", "-n", "1000", "--json")).json
    used = [re.search(r"API key (\S+) was created for a command with --local", row["message"]) for row in events]
    for mark in filter(None, used):
        assert (await manager.get(f"/api/api-key/{mark[1]}")).status_code == 404
    assert any(used)


@pytest.mark.requirement("ship-4")
async def test_objects_are_listed_and_shown_by_name_and_id(identity, tenant, rp):
    listed = await identity("admin", "list", "tenant", tenant["name"], "--json")
    assert [one["id"] for one in listed.json] == [tenant["id"]]
    assert tenant["id"] in (await identity("admin", "list", "tenant", tenant["name"])).out
    by_name = (await identity("admin", "show", "application", rp.application["name"], "--json")).json
    assert by_name == (await identity("admin", "show", "application", rp.client_id, "--json")).json
    assert rp.client_id in (await identity("admin", "show", "application", rp.client_id)).out
    keys = (await identity("admin", "list", "api-key", "--json")).json
    assert MANAGER_KEY not in str(keys)
    assert (await identity("admin", "show", "api-key", keys[0]["id"], "--json")).json["id"] == keys[0]["id"]
    user = (await identity("admin", "show", "user", rp.user["id"], "--json")).json
    assert user["email"] == rp.user["email"]
    found = await identity("admin", "list", "user", rp.user["email"])
    assert rp.user["id"] in found.out


@pytest.mark.requirement("ship-4")
async def test_newest_logins_are_printed_last(identity, rp, api):
    for _ in range(2):
        await _log_in(rp, api)
    rows = (await identity("admin", "tail", "logins", "-n", "50", "--json")).json
    mine = [row for row in rows if row["userId"] == rp.user["id"]]
    assert len(mine) >= 2
    assert [row["instant"] for row in rows] == sorted(row["instant"] for row in rows)
    assert rp.user["email"] in (await identity("admin", "tail", "logins")).out
    assert (await identity("admin", "tail", "events", "-n", "1")).code == 0


@pytest.mark.requirement("ship-4")
async def test_followed_log_prints_each_new_row_once(identity, rp, service, monkeypatch):
    pauses = iter(range(3))

    def log_in_instead_of_waiting(_seconds):
        """In the pauses: a login, nothing, the user's Ctrl-C."""
        pause = next(pauses)
        if pause == 2:
            raise KeyboardInterrupt
        if pause == 0:
            body = {"loginId": rp.user["email"], "password": PASSWORD, "applicationId": rp.client_id}
            headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": rp.tenant["id"]}
            assert (
                httpx.post(f"{service.base_url}/api/login", json=body, headers=headers, timeout=30).status_code == 200
            )

    clock = types.SimpleNamespace(sleep=log_in_instead_of_waiting, time=time.time)
    monkeypatch.setattr(log_tails, "time", clock)
    done = await identity("admin", "tail", "logins", "--follow", "-n", "0")
    assert done.code == 130
    assert done.out.count(rp.user["id"]) == 1


async def _log_in(rp, api):
    body = {"loginId": rp.user["email"], "password": PASSWORD, "applicationId": rp.client_id}
    answer = await api.post("/api/login", json=body, headers={"X-FusionAuth-TenantId": rp.tenant["id"]})
    return answer.json()


@pytest.mark.requirement("ship-4")
async def test_token_is_verified_and_explained(identity, rp, api):
    token = (await _log_in(rp, api))["token"]
    claims = (await identity("admin", "verify-token", token, "--json")).json
    assert claims["sub"] == rp.user["id"]
    explained = (await identity("admin", "explain", token, "--json")).json
    assert explained["verification"] == "valid access token"
    assert explained["tenant"] == rp.tenant["name"]
    assert explained["application"] == rp.application["name"]
    assert explained["claims"]["exp"].startswith(f"{claims['exp']} (20")
    forged = token[:-8] + "AAAAAAAA"
    assert (await identity("admin", "verify-token", forged)).code == exit_codes.REFUSED
    assert (await identity("admin", "explain", forged, "--json")).json["verification"].startswith("refused")


@pytest.mark.requirement("ship-4")
@pytest.mark.parametrize("text", ["a refresh token", "a.b.c", "W10.W10.x"])
async def test_text_that_is_no_token_is_a_usage_error(identity, text):
    done = await identity("admin", "explain", text)
    assert done.code == exit_codes.USAGE
    assert "not a JWT" in done.err


@pytest.mark.requirement("ship-4")
async def test_authorization_url_is_explained_with_the_decision_of_the_service(identity, rp, service):
    base = f"{service.base_url}/oauth2/authorize?client_id={rp.client_id}&response_type=code&scope=openid"
    url = f"{base}&redirect_uri={relying_party.REDIRECT_URI}"
    refused = (await identity("admin", "explain", url.replace("callback", "other"), "--json")).json
    assert refused["client"]["authorizedRedirectURLs"] == [relying_party.REDIRECT_URI]
    assert (refused["response"]["refused"], refused["response"]["error_reason"]) == (True, "invalid_redirect_uri")
    challenge = f"&code_challenge={relying_party.CHALLENGE}&code_challenge_method=S256"
    accepted = (await identity("admin", "explain", f"{url}{challenge}", "--json")).json
    assert accepted["response"] == {"refused": False, "page": "the login page"}
    denied = (await identity("admin", "explain", f"{url}{challenge}&prompt=none", "--json")).json
    assert denied["response"]["error"] == "login_required"


@pytest.mark.requirement("ship-4")
async def test_signing_keys_are_rotated_and_old_tokens_stay_valid(identity, rp, api):
    before = (await _log_in(rp, api))["token"]
    changed = (await identity("admin", "rotate-key", "--tenant", rp.tenant["id"], "--json")).json
    tenant = (await api.get(f"/api/tenant/{rp.tenant['id']}")).json()["tenant"]
    assert tenant["jwtConfiguration"]["accessTokenKeyId"] == changed["accessTokenKeyId"]
    after = (await _log_in(rp, api))["token"]
    assert relying_party.header(after)["kid"] != relying_party.header(before)["kid"]
    for token in (before, after):
        assert (await identity("admin", "verify-token", token)).code == 0


@pytest.mark.requirement("ship-4")
async def test_failed_deliveries_are_replayed(identity, http):
    webhook = {"url": "http://127.0.0.1:9999/", "connectTimeout": 1000, "readTimeout": 1000, "global": True}
    headers = {"Authorization": SUPER_KEY}
    answer = await http.post("/api/webhook", json={"webhook": webhook}, headers=headers)
    made = answer.json()["webhook"]
    done = await identity("admin", "webhook", "replay", "--webhook", made["id"], "--since", "1h", "--json")
    assert done.json == {"deliveries": 0}
    unknown = await identity("admin", "webhook", "replay", "--event", UNKNOWN_ID)
    assert unknown.code == exit_codes.NOT_FOUND
    for wrong in (("--since", "1h"), ("--since", "yesterday", "--webhook", made["id"]), ()):
        assert (await identity("admin", "webhook", "replay", *wrong)).code == exit_codes.USAGE


@pytest.mark.requirement("ship-6")
async def test_exit_code_says_what_went_wrong(identity):
    assert (await identity("admin", "list", "nonsense")).code == exit_codes.USAGE
    assert (await identity("admin", "show", "tenant", "no such tenant")).code == exit_codes.NOT_FOUND
    assert (await identity("admin", "create-admin", "no address")).code == exit_codes.REFUSED
    unknown = await identity("admin", "unlock", "none@example.com")
    assert (unknown.code, "no user with the id or login id [none@example.com]" in unknown.err) == (4, True)
    no_manager = await identity("admin", "list", "api-key", IDENTITY_API_KEY=SUPER_KEY)
    assert (no_manager.code, "key manager" in no_manager.err) == (exit_codes.UNAUTHORIZED, True)
    wrong_key = await identity("admin", "list", "tenant", IDENTITY_API_KEY="wrong")
    assert (wrong_key.code, "IDENTITY_API_KEY" in wrong_key.err) == (exit_codes.UNAUTHORIZED, True)
    for url in ("http://127.0.0.1:9", "file:///etc/passwd"):
        gone = await identity("admin", "list", "tenant", IDENTITY_URL=url)
        assert (gone.code, "Traceback" in gone.err) == (exit_codes.UNREACHABLE, False)


@pytest.mark.requirement("ship-6")
async def test_shell_completion_knows_the_kinds_of_objects(identity, capsys):
    with pytest.raises(SystemExit):
        await identity(_IDENTITY_COMPLETE="bash_complete", COMP_WORDS="identity admin list ten", COMP_CWORD="3")
    assert "plain,tenant" in capsys.readouterr().out
