"""Two-factor login over HTTP: challenge, code delivery, and completion."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest

from identity.ids import fingerprint, new_id
from identity.operations.two_factor import two_factor_trust
from tests import internals, relying_party, two_factor, veto
from tests.conftest import EMAIL_TEMPLATE, UNKNOWN_ID, checking_client
from tests.mailbox import receiving as receiving_mail
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, RelyingParty
from tests.subscriber import Subscriber

Document = dict[str, Any]


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    found = await relying_party.make(api)
    await change(found, loginConfiguration={"generateRefreshTokens": True, "requireAuthentication": False})
    await add_methods(found, two_factor.authenticator())
    return found


async def change(rp: RelyingParty, **members: Any) -> None:
    await rp.patch(f"/api/application/{rp.client_id}", {"application": members})


async def add_methods(rp: RelyingParty, *methods: Document, codes: tuple[str, ...] = ()) -> None:
    body = {"user": {"twoFactor": {"methods": list(methods), "recoveryCodes": list(codes)}}}
    await rp.patch(f"/api/user/{rp.user['id']}", body)


async def log_in(client: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> httpx.Response:
    return await rp.log_in_by_api(client, **members)


async def challenged(client: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> Document:
    answer = await log_in(client, rp, **members)
    assert answer.status_code == 242, answer.text
    return answer.json()


async def complete(client: httpx.AsyncClient, two_factor_id: str, code: str, **members: Any) -> httpx.Response:
    return await client.post("/api/two-factor/login", json={"twoFactorId": two_factor_id, "code": code, **members})


@pytest.mark.requirement("users-9-10")
async def test_authenticator_code_completes_login(http, rp, clock) -> None:
    waiting = await challenged(http, rp)
    assert waiting.keys() == {"twoFactorId", "methods"}
    assert [method["method"] for method in waiting["methods"]] == ["authenticator"]
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["user"]["id"] == rp.user["id"]
    assert body.keys() >= {"token", "refreshToken", "trustToken"}
    claims = relying_party.claims(body["token"])
    assert (claims["sub"], claims["aud"], claims["authenticationType"]) == (rp.user["id"], rp.client_id, "PASSWORD")
    assert {cookie.name for cookie in answer.cookies.jar} == {"access_token", "refresh_token"}
    assert (await complete(http, waiting["twoFactorId"], two_factor.code(clock.now(), steps=1))).status_code == 404


@pytest.mark.requirement("core-3-5", "users-9-10")
async def test_wrong_code_is_421_and_unknown_challenge_404(http, rp, clock) -> None:
    waiting = await challenged(http, rp)
    wrong = await complete(http, waiting["twoFactorId"], two_factor.wrong_code(clock.now()))
    assert (wrong.status_code, wrong.content) == (421, b"")
    assert (await complete(http, "no-such-challenge", two_factor.code(clock.now()))).status_code == 404
    assert (await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))).status_code == 200


async def started(key: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> Document:
    answer = await key.post("/api/two-factor/start", json={"userId": rp.user["id"], **members})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    return {entry["code"] for entries in answer.json().get("fieldErrors", {}).values() for entry in entries}


async def policy(rp: RelyingParty, login: str, *, application: bool = False, **members: Any) -> None:
    if application:
        await change(rp, multiFactorConfiguration={"loginPolicy": login, **members})
    else:
        await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": login, **members})


async def trusted(http: httpx.AsyncClient, rp: RelyingParty, clock, steps: int = 0, **members: Any) -> str:
    """Log in with a second factor, and trust the computer; the answer's cookies are left to the caller."""
    waiting = await challenged(http, rp, **members)
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now(), steps=steps), trustComputer=True)
    assert answer.status_code in {200, 202}, answer.text
    return str(answer.json()["twoFactorTrustId"])


# Codes


@pytest.mark.requirement("users-9-18")
async def test_challenge_accepts_five_attempts(http, rp, clock) -> None:
    two_factor_id = (await challenged(http, rp))["twoFactorId"]
    wrong = two_factor.wrong_code(clock.now())
    assert [(await complete(http, two_factor_id, wrong)).status_code for _ in range(5)] == [421] * 5
    assert (await complete(http, two_factor_id, two_factor.code(clock.now()))).status_code == 404


@pytest.mark.requirement("attack-48")
async def test_attack_48_new_challenge_does_not_add_attempts(key, http, rp, clock) -> None:
    wrong = two_factor.wrong_code(clock.now())
    statuses = []
    for _ in range(3):
        two_factor_id = (await started(key, rp))["twoFactorId"]
        statuses += [(await complete(http, two_factor_id, wrong)).status_code for _ in range(4)]
    assert statuses == [421] * 10 + [503] * 2
    last = await started(key, rp)
    assert (await complete(http, last["twoFactorId"], last["code"])).status_code == 503
    other = await relying_party.make_user(rp.api, rp.tenant["id"])
    free = await started(key, rp, userId=other["id"])
    assert (await complete(http, free["twoFactorId"], free["code"])).status_code == 200


@pytest.mark.requirement("attack-48")
async def test_attack_48_correct_code_does_not_reset_failures(key, http, rp, clock) -> None:
    wrong = two_factor.wrong_code(clock.now())
    for _ in range(5):
        begun = await started(key, rp)
        await complete(http, begun["twoFactorId"], wrong)
        await complete(http, begun["twoFactorId"], wrong)
        last = await complete(http, begun["twoFactorId"], begun["code"])
    assert last.status_code == 503


@pytest.mark.requirement("users-9-17")
async def test_authenticator_code_is_valid_one_step_early_and_late_and_once(key, http, rp, clock) -> None:
    clock.advance(seconds=30 - clock.now() % 30_000 / 1000)  # to where a step begins: there is time to show the codes
    now = clock.now()
    for steps, status in ((-1, 200), (1, 200), (1, 421), (-1, 421), (3, 421), (-2, 421)):
        begun = await started(key, rp)
        assert (await complete(http, begun["twoFactorId"], two_factor.code(now, steps=steps))).status_code == status


@pytest.mark.requirement("event-user.two-factor.failed-attempt")
async def test_reused_code_emits_failure_event_and_no_login_event(http, rp, clock) -> None:
    first, second = await challenged(http, rp), await challenged(http, rp)
    code = two_factor.code(clock.now())
    assert (await complete(http, first["twoFactorId"], code)).status_code == 200
    async with receiving() as receiver:
        subscriber = Subscriber(rp.api, receiver, rp.tenant["id"])
        await subscriber.subscribe(TOLD, "AbsoluteMajority")
        assert (await complete(http, second["twoFactorId"], code)).status_code == 421
        (failed,) = await subscriber.received("user.two-factor.failed-attempt")
        assert failed["method"] == "authenticator"
        assert (await complete(http, second["twoFactorId"], two_factor.code(clock.now(), steps=1))).status_code == 200
        await subscriber.received("user.login.success", "user.two-factor.success")


@pytest.mark.requirement("users-9-10")
async def test_login_without_application_gets_token_after_second_factor(key, rp, clock) -> None:
    waiting = await challenged(key, rp, applicationId=None)
    answer = await complete(key, waiting["twoFactorId"], two_factor.code(clock.now()), trustComputer=True)
    assert answer.status_code == 200, answer.text
    trusted_one = await log_in(key, rp, applicationId=None, twoFactorTrustId=answer.json()["twoFactorTrustId"])
    ping = await key.put(f"/api/login/{rp.user['id']}")
    for body, kind in ((answer.json(), "PASSWORD"), (trusted_one.json(), "PASSWORD"), (ping.json(), "PING")):
        claims = relying_party.claims(body["token"])
        assert (claims["sub"], claims["authenticationType"], "aud" in claims) == (rp.user["id"], kind, False)
        assert body["tokenExpirationInstant"] // 1000 == claims["exp"]


@pytest.mark.requirement("users-9-18")
async def test_of_64_concurrent_uses_of_challenge_one_logs_in(key, http, rp, clock) -> None:
    begun = await started(key, rp)
    found = await asyncio.gather(*(complete(http, begun["twoFactorId"], begun["code"], noJWT=True) for _ in range(64)))
    assert [answer.status_code for answer in found].count(200) == 1
    assert {answer.status_code for answer in found} <= {200, 404}


@pytest.mark.requirement("users-9-17")
async def test_of_64_concurrent_uses_of_authenticator_code_one_logs_in(key, http, rp, clock) -> None:
    ids = [(await started(key, rp))["twoFactorId"] for _ in range(64)]
    code = two_factor.code(clock.now())
    found = await asyncio.gather(*(complete(http, one, code, noJWT=True) for one in ids))
    assert [answer.status_code for answer in found].count(200) == 1
    # 503: after ten wrong codes for a user, further ones have to wait.
    assert {answer.status_code for answer in found} <= {200, 421, 503}


@pytest.mark.requirement("users-9-16")
async def test_recovery_code_logs_in_once(key, http, rp) -> None:
    given = (await key.post(f"/api/user/two-factor/recovery-code/{rp.user['id']}")).json()["recoveryCodes"]
    first, second = await challenged(http, rp), await challenged(http, rp)
    assert (await complete(http, first["twoFactorId"], given[0].lower())).status_code == 200
    assert (await complete(http, second["twoFactorId"], given[0])).status_code == 421
    left = (await key.get(f"/api/user/two-factor/recovery-code/{rp.user['id']}")).json()["recoveryCodes"]
    assert left == given[1:]


@pytest.mark.requirement("users-9-16")
async def test_of_64_concurrent_uses_of_recovery_code_one_logs_in(key, http, rp) -> None:
    given = (await key.post(f"/api/user/two-factor/recovery-code/{rp.user['id']}")).json()["recoveryCodes"]
    ids = [(await started(key, rp))["twoFactorId"] for _ in range(64)]
    found = await asyncio.gather(*(complete(http, one, given[0], noJWT=True) for one in ids))
    assert [answer.status_code for answer in found].count(200) == 1
    assert len((await key.get(f"/api/user/two-factor/recovery-code/{rp.user['id']}")).json()["recoveryCodes"]) == 9


@pytest.mark.requirement("users-9-7")
async def test_latest_email_code_completes_login(key, http, rp) -> None:
    async with receiving_mail() as box:
        await two_factor.enable_email(rp, box, "{{ code }}")
        await add_methods(rp, {"method": "email", "email": "second@example.com"})
        waiting = await challenged(http, rp)
        (method,) = waiting["methods"]
        assert method["email"] == "s***@example.com"
        for body in ({"methodId": method["id"]}, None):  # older clients send no body
            answer = await http.post(f"/api/two-factor/send/{waiting['twoFactorId']}", json=body)
            assert (answer.status_code, answer.content) == (200, b"")
        first, second = [mail.part("plain").strip() for mail in await box.wait_for(2)]
    assert box.mails[0].recipients == ["second@example.com"]
    if first != second:
        assert (await complete(http, waiting["twoFactorId"], first)).status_code == 421
    assert (await complete(http, waiting["twoFactorId"], second)).status_code == 200
    assert (await key.get(f"/api/user/{rp.user['id']}")).json()["user"]["twoFactor"]["methods"][0]["lastUsed"] is True


@pytest.mark.requirement("users-9-8")
async def test_sms_code_completes_login(http, rp) -> None:
    await add_methods(rp, {"method": "sms", "mobilePhone": "+1 415 555 0100"})
    async with receiving() as receiver:
        await two_factor.enable_sms(rp, receiver.url)
        waiting = await challenged(http, rp)
        (method,) = waiting["methods"]
        assert method["mobilePhone"] == "***00"
        answer = await http.post(f"/api/two-factor/send/{waiting['twoFactorId']}", json={"methodId": method["id"]})
        assert answer.status_code == 200
        (request,) = await receiver.wait_for(1)
    code = json.loads(request.body)["textMessage"]
    assert (await complete(http, waiting["twoFactorId"], code)).status_code == 200


@pytest.mark.requirement("users-9-7")
async def test_code_sent_to_removed_address_is_invalid(http, rp) -> None:
    async with receiving_mail() as box:
        await two_factor.enable_email(rp, box)
        await add_methods(rp, {"method": "email", "email": "stolen@example.com"})
        waiting = await challenged(http, rp)
        await http.post(f"/api/two-factor/send/{waiting['twoFactorId']}", json={})
        code = await two_factor.mailed_code(box)
    await add_methods(rp, two_factor.authenticator())
    assert (await complete(http, waiting["twoFactorId"], code)).status_code == 421


@pytest.mark.requirement("users-9-7")
async def test_failed_sending_is_reported(http, rp, api) -> None:
    waiting = await challenged(http, rp)
    send = f"/api/two-factor/send/{waiting['twoFactorId']}"
    assert codes(await http.post(send, json={"methodId": waiting["methods"][0]["id"]})) == {"[cannotSend]method"}
    assert codes(await http.post(send, json={"methodId": "AAAA"})) == {"[invalid]methodId"}
    assert codes(await http.post(send, json={})) == {"[invalid]methodId"}
    assert (await http.post("/api/two-factor/send/none", json={})).status_code == 404
    await add_methods(
        rp, {"method": "email", "email": "a@example.com"}, {"method": "sms", "mobilePhone": "+14155550100"}
    )
    waiting = await challenged(http, rp)
    for method in waiting["methods"]:  # no template is named
        answer = await http.post(f"/api/two-factor/send/{waiting['twoFactorId']}", json={"methodId": method["id"]})
        assert codes(answer) == {"[cannotSend]method"}


@pytest.mark.requirement("users-9-21")
async def test_challenge_allows_ten_messages(http, rp) -> None:
    async with receiving_mail() as box:
        await two_factor.enable_email(rp, box)
        await add_methods(rp, {"method": "email", "email": "a@example.com"})
        send = f"/api/two-factor/send/{(await challenged(http, rp))['twoFactorId']}"
        statuses = [(await http.post(send, json={})).status_code for _ in range(11)]
    assert statuses == [200] * 10 + [503]


@pytest.mark.requirement("users-9-18")
async def test_challenge_is_unknown_to_another_tenant(service, http, rp, api, clock) -> None:
    other = await relying_party.make(api)
    waiting = await challenged(http, rp)
    headers = {"X-FusionAuth-TenantId": other.tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as elsewhere:
        assert (await complete(elsewhere, waiting["twoFactorId"], two_factor.code(clock.now()))).status_code == 404
        assert (await elsewhere.post(f"/api/two-factor/send/{waiting['twoFactorId']}", json={})).status_code == 404
    assert (await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))).status_code == 200


@pytest.mark.requirement("users-9-18")
async def test_challenge_expires(http, rp, clock, service) -> None:
    await rp.configure_tenant(externalIdentifierConfiguration={"twoFactorIdTimeToLiveInSeconds": 77})
    two_factor_id = (await challenged(http, rp))["twoFactorId"]
    redis = internals.redis(service)
    ttl = await redis.client.ttl(redis.key("ticket", "two-factor", f"{{{fingerprint(two_factor_id)}}}"))
    assert 60 < ttl <= 77


@pytest.mark.requirement("users-9-10")
@pytest.mark.parametrize("body", [{}, {"twoFactorId": "x"}, {"code": "x"}])
async def test_missing_members_are_reported(http, body) -> None:
    answer = await http.post("/api/two-factor/login", json=body)
    assert codes(answer) == {f"[blank]{name}" for name in ("code", "twoFactorId") if name not in body}


# Policies


@pytest.mark.requirement("users-5-11")
async def test_full_addresses_require_api_key(key, http, rp) -> None:
    await add_methods(rp, {"method": "email", "email": "second@example.com", "name": "Second"})
    (masked,), (whole,) = (await challenged(http, rp))["methods"], (await challenged(key, rp))["methods"]
    assert (masked["email"], whole["email"]) == ("s***@example.com", "second@example.com")
    assert {**masked, "email": ""} == {**whole, "email": ""}
    assert whole.keys() == {"id", "method", "email", "lastUsed", "name"}


@pytest.mark.requirement("users-9-19")
async def test_application_policy_overrides_tenant_policy(http, rp) -> None:
    await policy(rp, "Disabled")
    assert (await log_in(http, rp)).status_code == 200
    await policy(rp, "Enabled", application=True)
    assert (await log_in(http, rp)).status_code == 242
    await policy(rp, "Enabled")
    await policy(rp, "Disabled", application=True)
    assert (await log_in(http, rp)).status_code == 200


@pytest.mark.requirement("users-9-19")
async def test_required_method_must_be_configured(http, rp) -> None:
    await add_methods(rp)
    assert (await log_in(http, rp)).status_code == 200
    await policy(rp, "Required", email={"enabled": True, "templateId": EMAIL_TEMPLATE})
    waiting = await challenged(http, rp)
    assert waiting.keys() == {"twoFactorId", "methods", "configurableMethods"}
    assert (waiting["methods"], waiting["configurableMethods"]) == ([], ["authenticator", "email"])


# Trust


@pytest.mark.requirement("users-5-5", "users-9-12")
async def test_trusted_device_skips_challenge_until_trust_expires(http, rp, clock) -> None:
    waiting = await challenged(http, rp)
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()), trustComputer=True)
    trust_id = answer.json()["twoFactorTrustId"]
    (cookie,) = [one for one in answer.cookies.jar if one.name == "fusionauth.trust"]
    assert cookie.value == trust_id and cookie.has_nonstandard_attr("HttpOnly")
    assert (await log_in(http, rp)).status_code == 200  # by the cookie
    http.cookies.clear()
    assert (await log_in(http, rp)).status_code == 242
    assert (await log_in(http, rp, twoFactorTrustId=trust_id)).status_code == 200
    assert (await log_in(http, rp, twoFactorTrustId="nonsense")).status_code == 242
    clock.advance(seconds=2_592_000)
    assert (await log_in(http, rp, twoFactorTrustId=trust_id)).status_code == 242


@pytest.mark.requirement("users-5-5", "users-9-12")
async def test_trust_cookie_precedes_body(http, rp, clock) -> None:
    trust_id = await trusted(http, rp, clock)
    http.cookies.clear()
    http.cookies.set("fusionauth.trust", "nonsense")
    assert (await log_in(http, rp, twoFactorTrustId=trust_id)).status_code == 242
    http.cookies.set("fusionauth.trust", trust_id)
    assert (await log_in(http, rp, twoFactorTrustId="nonsense")).status_code == 200


@pytest.mark.requirement("users-9-12")
async def test_device_is_trusted_on_request_only(http, rp, clock) -> None:
    waiting = await challenged(http, rp)
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))
    assert "twoFactorTrustId" not in answer.json() and "fusionauth.trust" not in answer.cookies


@pytest.mark.requirement("users-9-20")
async def test_trust_policy_determines_accepted_trust(http, rp, clock, api) -> None:
    other = await relying_party.make(api, tenant=rp.tenant)
    there = {"applicationId": other.client_id}
    await change(other, loginConfiguration={"requireAuthentication": False})
    elsewhere = await trusted(http, rp, clock, **there)
    http.cookies.clear()
    for trust, status in (("Any", 200), ("This", 242), ("None", 242)):
        await policy(rp, "Enabled", application=True, trustPolicy=trust)
        assert (await log_in(http, rp, twoFactorTrustId=elsewhere)).status_code == status, trust
    await policy(rp, "Enabled", application=True, trustPolicy="This")
    http.cookies.set("fusionauth.trust", elsewhere)
    assert await trusted(http, rp, clock, steps=1) == elsewhere  # one device, trusted for both
    assert (await log_in(http, rp)).status_code == 200
    await policy(rp, "Enabled", application=True, trustPolicy="None")
    assert (await log_in(http, rp)).status_code == 242


@pytest.mark.requirement("users-9-12")
async def test_application_overrides_trust_duration(http, rp, clock) -> None:
    await change(rp, externalIdentifierConfiguration={"twoFactorTrustIdTimeToLiveInSeconds": 60})
    trust_id = await trusted(http, rp, clock)
    http.cookies.clear()
    assert (await log_in(http, rp, twoFactorTrustId=trust_id)).status_code == 200
    clock.advance(seconds=60)
    assert (await log_in(http, rp, twoFactorTrustId=trust_id)).status_code == 242


@pytest.mark.requirement("users-9-12")
async def test_trust_is_bound_to_user(http, rp, clock) -> None:
    trust_id = await trusted(http, rp, clock)
    http.cookies.clear()
    other = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    body = {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}}
    await rp.patch(f"/api/user/{other['id']}", body)
    assert (await log_in(http, rp, loginId=other["email"], twoFactorTrustId=trust_id)).status_code == 242


@pytest.mark.requirement("users-9-13")
@pytest.mark.parametrize("way", ["recovery code", "administrator"])
async def test_removing_method_revokes_trust(key, http, rp, clock, way) -> None:
    trust_id = await trusted(http, rp, clock)
    http.cookies.clear()
    if way == "administrator":
        await add_methods(rp)
    else:
        given = (await key.post(f"/api/user/two-factor/recovery-code/{rp.user['id']}")).json()["recoveryCodes"]
        removal = await key.delete(f"/api/user/two-factor/{rp.user['id']}", params={"code": given[0]})
        assert removal.status_code == 200
    await add_methods(rp, two_factor.authenticator())
    assert (await log_in(http, rp, twoFactorTrustId=trust_id)).status_code == 242


@pytest.mark.requirement("users-9-13")
async def test_trust_is_deleted_with_user_and_application(http, rp, clock, service, key) -> None:
    trusts = internals.store(service, "two_factor_trusts")
    await trusted(http, rp, clock)
    (stored,) = await trusts.find_unordered(rp.tenant["id"], {"userId": rp.user["id"]})
    assert [trust["applicationId"] for trust in stored["trusts"]] == [rp.client_id]
    await key.delete(f"/api/application/{rp.client_id}", params={"hardDelete": "true"})
    (stored,) = await trusts.find_unordered(rp.tenant["id"], {"userId": rp.user["id"]})
    assert stored["trusts"] == []
    await key.delete(f"/api/user/{rp.user['id']}", params={"hardDelete": "true"})
    assert await trusts.find_unordered(rp.tenant["id"], {"userId": rp.user["id"]}) == []


# Starting one over the API


@pytest.mark.requirement("users-9-9")
async def test_started_challenge_uses_given_or_generated_code_and_returns_state(key, http, rp) -> None:
    made = await started(key, rp, applicationId=rp.client_id, state={"at": "the door"})
    assert made.keys() == {"twoFactorId", "code", "methods"}
    assert re.fullmatch("[0-9]{6}", made["code"])
    done = (await complete(http, made["twoFactorId"], made["code"])).json()
    assert (done["state"], relying_party.claims(done["token"])["aud"]) == ({"at": "the door"}, rp.client_id)
    chosen = await started(key, rp, userId=None, loginId=rp.login_id, code="our own code")
    assert chosen["code"] == "our own code"
    done = await complete(http, chosen["twoFactorId"], "Our own code ", applicationId=rp.client_id)
    assert done.status_code == 200
    assert relying_party.claims(done.json()["token"])["aud"] == rp.client_id


@pytest.mark.requirement("users-9-9")
async def test_start_requires_existing_user(key, rp, api) -> None:
    other = await relying_party.make(api)
    assert codes(await key.post("/api/two-factor/start", json={})) == {"[blank]loginId"}
    for body in ({"userId": UNKNOWN_ID}, {"loginId": "unknown@example.com"}, {"userId": other.user["id"]}):
        assert (await key.post("/api/two-factor/start", json=body)).status_code == 404
    wrong = {"userId": rp.user["id"], "applicationId": other.client_id}
    assert codes(await key.post("/api/two-factor/start", json=wrong)) == {"[invalid]applicationId"}


@pytest.mark.requirement("users-9-10")
async def test_login_completes_for_its_original_application(http, rp, api, clock) -> None:
    other = await relying_party.make(api, tenant=rp.tenant)
    for begun in (rp.client_id, None):
        if begun is None:
            await rp.configure_tenant(loginConfiguration={"requireAuthentication": False})
        waiting = await challenged_at(http, rp, begun)
        code = two_factor.code(clock.now())
        answer = await complete(http, waiting["twoFactorId"], code, applicationId=other.client_id)
        assert codes(answer) == {"[invalid]applicationId"}


async def challenged_at(http: httpx.AsyncClient, rp: RelyingParty, application_id: str | None) -> Document:
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    body = {"loginId": rp.login_id, "password": PASSWORD, "applicationId": application_id}
    answer = await http.post("/api/login", json={name: value for name, value in body.items() if value}, headers=headers)
    assert answer.status_code == 242, answer.text
    return dict(answer.json())


@pytest.mark.requirement("users-9-14")
async def test_trust_token_is_bound_to_challenge_and_single_use(key, http, rp, service) -> None:
    begun = await started(key, rp, trustChallenge="a challenge")
    token = (await complete(http, begun["twoFactorId"], begun["code"])).json()["trustToken"]
    services, user = service.services, await internals.store(service, "users").get(rp.tenant["id"], rp.user["id"])
    assert not await two_factor_trust.is_valid_trust_token(services, user, token)
    assert not await two_factor_trust.is_valid_trust_token(services, user, token, "another challenge")
    assert not await two_factor_trust.is_valid_trust_token(services, {**user, "id": UNKNOWN_ID}, token, "a challenge")
    assert await two_factor_trust.is_valid_trust_token(services, user, token, "a challenge")
    uses = [two_factor_trust.trust_token_use(services, user, token).consume() for _ in range(64)]
    assert sum(await asyncio.gather(*uses)) == 1


# Statuses that a completed login may still have


@pytest.mark.requirement("users-9-11")
async def test_unregistered_user_is_202(http, rp, clock) -> None:
    user = await relying_party.make_user(rp.api, rp.tenant["id"])
    rp.user = user
    await add_methods(rp, two_factor.authenticator())
    waiting = await challenged(http, rp)
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))
    assert answer.status_code == 202
    assert answer.json().keys() >= {"user", "token", "trustToken"} and "refreshToken" not in answer.json()


@pytest.mark.requirement("users-9-11")
async def test_required_password_change_is_reported_after_second_factor(http, rp, clock) -> None:
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"passwordChangeRequired": True}})
    waiting = await challenged(http, rp)
    assert "changePasswordReason" not in waiting
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))
    assert answer.status_code == 203
    assert (answer.json()["changePasswordReason"], "token" in answer.json()) == ("Administrative", False)


@pytest.mark.requirement("users-9-11")
async def test_reason_for_password_change_is_kept_through_second_factor(http, rp, clock) -> None:
    await rp.configure_tenant(passwordValidationRules={"requireNumber": True, "validateOnLogin": True})
    waiting = await challenged(http, rp)
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))
    assert (answer.status_code, answer.json()["changePasswordReason"]) == (203, "Validation")


@pytest.mark.requirement("users-9-11")
async def test_user_locked_or_expired_during_challenge_is_refused(key, http, rp, clock) -> None:
    waiting = await challenged(http, rp)
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"expiry": clock.now() + 1000}})
    other = await challenged(http, rp)
    clock.advance(seconds=2)
    assert (await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))).status_code == 410
    await key.delete(f"/api/user/{rp.user['id']}")
    answer = await complete(http, other["twoFactorId"], two_factor.code(clock.now(), steps=1))
    assert (answer.status_code, answer.content) == (423, b"")


@pytest.mark.requirement("users-9-11")
async def test_gates_apply_after_second_factor(http, rp, clock, service) -> None:
    gated = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE, "unverified": {"behavior": "Gated"}}
    await rp.configure_tenant(emailConfiguration=gated)
    users = internals.store(service, "users")
    user = await users.find(rp.tenant["id"], rp.user["id"])
    await users.replace(rp.tenant["id"], {**user, "verified": False}, user["lastUpdateInstant"])
    waiting = await challenged(http, rp)
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))
    assert (answer.status_code, "token" in answer.json()) == (212, False)


@pytest.mark.requirement("users-9-11")
async def test_unverified_registration_is_reported_after_second_factor(http, rp, clock, service) -> None:
    gated = {"verifyRegistration": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    await change(rp, **gated, unverified={"behavior": "Gated"})
    users = internals.store(service, "users")
    user = await users.find(rp.tenant["id"], rp.user["id"])
    registrations = [{**entry, "verified": False} for entry in user["registrations"]]
    await users.replace(rp.tenant["id"], {**user, "registrations": registrations}, user["lastUpdateInstant"])
    waiting = await challenged(http, rp)
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))
    assert (answer.status_code, "token" in answer.json()) == (213, False)


@pytest.mark.requirement("users-9-11")
async def test_action_preventing_login_is_reported_and_grants_no_trust(key, http, rp, clock) -> None:
    waiting = await challenged(http, rp)
    wanted = {"name": new_id(), "temporal": True, "preventLogin": True}
    action = (await key.post("/api/user-action", json={"userAction": wanted})).json()["userAction"]
    taken = {
        "userActionId": action["id"], "actioneeUserId": rp.user["id"], "actionerUserId": rp.user["id"],
        "expiry": clock.now() + 600_000,
    }  # fmt: skip
    assert (await key.post("/api/user/action", json={"action": taken})).status_code == 200
    code = two_factor.code(clock.now())
    answer = await complete(http, waiting["twoFactorId"], code, trustComputer=True)
    assert answer.status_code == 409, answer.text
    assert answer.json().keys() == {"actions"}


@pytest.mark.requirement("users-9-22")
@pytest.mark.parametrize("is_on", [True, False])
async def test_steps_are_logged_if_configured(http, rp, clock, service, is_on) -> None:
    await rp.configure_tenant(multiFactorConfiguration={"debug": is_on})
    waiting = await challenged(http, rp)
    code = two_factor.code(clock.now())
    await complete(http, waiting["twoFactorId"], two_factor.wrong_code(clock.now()))
    await complete(http, waiting["twoFactorId"], code)
    logs = internals.database(service).collection("event_logs").find({"message": {"$regex": rp.user["id"]}}).sort("_id")
    found = [row["message"].partition("]: ")[2] async for row in logs if row["type"] == "Debug"]
    assert (
        found
        == [
            "a second factor is required.",
            "incorrect code, probably of the method authenticator.",
            "correct code of the method authenticator.",
        ][: 3 if is_on else 0]
    )


# Events

TOLD = ("user.two-factor.challenge", "user.two-factor.failed-attempt", "user.two-factor.success", "user.login.success")


@pytest.mark.requirement(
    "event-user.two-factor.challenge",
    "event-user.two-factor.failed-attempt",
    "event-user.two-factor.success",
    "users-9-27",
)
async def test_challenge_and_codes_emit_events(http, key, rp, clock) -> None:
    async with receiving() as receiver:
        subscriber = Subscriber(rp.api, receiver, rp.tenant["id"])
        await subscriber.subscribe(TOLD)
        waiting = await challenged(http, rp)
        (begun,) = await subscriber.received(TOLD[0])
        assert (begun["user"]["id"], begun["applicationId"], "method" in begun) == (rp.user["id"], rp.client_id, False)
        await complete(http, waiting["twoFactorId"], two_factor.wrong_code(clock.now()))
        (failed,) = await subscriber.received(TOLD[1])
        assert (failed["method"], failed["applicationId"]) == ("authenticator", rp.client_id)
        code = two_factor.code(clock.now())
        await complete(key, waiting["twoFactorId"], code, ipAddress="192.0.2.7")
        success, login = await subscriber.received(TOLD[2], TOLD[3])
        assert (success["method"], success["info"]["ipAddress"]) == ("authenticator", "192.0.2.7")
        assert (login["authenticationType"], login["ipAddress"]) == ("PASSWORD", "192.0.2.7")
        assert all(secret not in str([begun, failed, success]) for secret in (waiting["twoFactorId"], code))


@pytest.mark.requirement("event-user.login.success-2", "users-9-25")
async def test_vetoed_login_consumes_neither_challenge_nor_code(key, http, rp, clock, service) -> None:
    given = (await key.post(f"/api/user/two-factor/recovery-code/{rp.user['id']}")).json()["recoveryCodes"]
    waiting = await challenged(http, rp)
    async with receiving(answers(500)) as receiver:
        subscriber = Subscriber(rp.api, receiver, rp.tenant["id"])
        await subscriber.subscribe(TOLD, "AbsoluteMajority")
        for code in (two_factor.code(clock.now()), given[0]):
            async with veto.unchanged(service, rp.tenant["id"]):
                answer = await complete(http, waiting["twoFactorId"], code, trustComputer=True)
                assert answer.status_code == 504
        receiver.behaviour = answers(200)
        assert (await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))).status_code == 200


# Status


@pytest.mark.requirement("users-9-15")
async def test_status_reports_whether_second_factor_is_required(key, http, rp, clock) -> None:
    about = {"userId": rp.user["id"], "applicationId": rp.client_id}
    assert (await key.get("/api/two-factor/status", params=about)).status_code == 242
    trust_id = await trusted(http, rp, clock)
    answer = await key.get(f"/api/two-factor/status/{trust_id}", params=about)
    assert (answer.status_code, answer.json()["twoFactorTrustId"]) == (200, trust_id)
    (trust,) = answer.json()["trusts"]
    assert trust.keys() == {"applicationId", "startInstant", "expiration"}
    assert trust["expiration"] == trust["startInstant"] + 2_592_000_000
    for action, status in (("login", 200), ("changePassword", 242), ("stepUp", 242)):
        body = {**about, "action": action, "twoFactorTrustId": trust_id}
        assert (await key.post("/api/two-factor/status", json=body)).status_code == status, action
    unknown = await key.get("/api/two-factor/status/unknown", params=about)
    assert (unknown.status_code, unknown.json()) == (242, {})
    await policy(rp, "Disabled")
    for action in ("login", "changePassword", "stepUp"):
        assert (await key.post("/api/two-factor/status", json={**about, "action": action})).status_code == 200
    assert codes(await key.get("/api/two-factor/status")) == {"[missing]userId"}
    assert (await key.get("/api/two-factor/status", params={"userId": UNKNOWN_ID})).status_code == 404


@pytest.mark.requirement("attack-46")
async def test_password_change_on_trusted_device_is_no_second_factor_elsewhere(http, key, rp, clock, api) -> None:
    other = await relying_party.make(api, tenant=rp.tenant)
    await change(other, loginConfiguration={"requireAuthentication": False})
    await policy(other, "Enabled", application=True, trustPolicy="None")
    trust_id = await trusted(http, rp, clock)
    http.cookies.clear()
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"passwordChangeRequired": True}})
    statuses, current = [], PASSWORD
    for at, password in ((other, "another battery"), (rp, "yet another battery")):
        asked = await log_in(http, rp, twoFactorTrustId=trust_id, password=current)
        assert asked.status_code == 203, asked.text
        path = f"/api/user/change-password/{asked.json()['changePasswordId']}"
        done = await http.post(path, json={"password": password})
        assert done.status_code == 200, done.text
        once = {"oneTimePassword": done.json()["oneTimePassword"], "applicationId": at.client_id}
        statuses.append((await http.post("/api/login", json=once)).status_code)
        current = password
        await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"passwordChangeRequired": True}})
    assert statuses == [242, 200]


@pytest.mark.requirement("attack-46")
async def test_password_change_by_an_administrator_ends_trust_in_devices(http, rp, clock) -> None:
    trust_id = await trusted(http, rp, clock)
    http.cookies.clear()
    assert (await log_in(http, rp, twoFactorTrustId=trust_id)).status_code == 200
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"password": "another horse battery"}})
    asked = await log_in(http, rp, twoFactorTrustId=trust_id, password="another horse battery")
    assert asked.status_code == 242
    clock.advance(seconds=60)  # a code is valid once
    trust_id = await complete(http, asked.json()["twoFactorId"], two_factor.code(clock.now()), trustComputer=True)
    http.cookies.clear()
    changed = {"loginId": rp.login_id, "password": "yet another battery"}
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await rp.api.post("/api/user/change-password", json=changed, headers=headers)
    assert answer.is_success, answer.text
    asked = await log_in(http, rp, twoFactorTrustId=trust_id.json()["twoFactorTrustId"], password="yet another battery")
    assert asked.status_code == 242


@pytest.mark.requirement("attack-46")
async def test_attack_46_password_change_invalidates_challenge(http, rp, clock) -> None:
    waiting = await challenged(http, rp)
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"password": "another horse battery"}})
    assert (await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))).status_code == 404
    waiting = await challenged(http, rp, password="another horse battery")
    assert (await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))).status_code == 200
