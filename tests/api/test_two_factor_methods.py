"""Two-factor methods of users over HTTP: added, named, removed, and recovery codes."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import internals, relying_party, two_factor, veto
from tests.conftest import UNKNOWN_ID
from tests.mailbox import Mailbox
from tests.mailbox import receiving as receiving_mail
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, RelyingParty
from tests.subscriber import Subscriber

Document = dict[str, Any]
OTHER_SECRET = base64.b64encode(b"another secret of an app").decode()


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    found = await relying_party.make(api)
    login = {"generateRefreshTokens": True, "requireAuthentication": False}
    await found.patch(f"/api/application/{found.client_id}", {"application": {"loginConfiguration": login}})
    return found


@pytest.fixture
async def mailbox(rp: RelyingParty) -> AsyncIterator[Mailbox]:
    async with receiving_mail() as box:
        await two_factor.enable_email(rp, box)
        yield box


def path(rp: RelyingParty) -> str:
    return f"/api/user/two-factor/{rp.user['id']}"


async def methods_of(key: httpx.AsyncClient, rp: RelyingParty) -> list[Document]:
    return (await key.get(f"/api/user/{rp.user['id']}")).json()["user"]["twoFactor"]["methods"]


async def codes_of(key: httpx.AsyncClient, rp: RelyingParty) -> list[str]:
    answer = await key.get(f"/api/user/two-factor/recovery-code/{rp.user['id']}")
    assert answer.status_code == 200
    return answer.json()["recoveryCodes"]


async def enable(key: httpx.AsyncClient, rp: RelyingParty, clock, **members: Any) -> httpx.Response:
    """Add the authenticator of the tests by default."""
    secret = members.get("secret", two_factor.SECRET)
    code = two_factor.code(clock.now(), secret=secret or two_factor.SECRET)
    body = {"method": "authenticator", "secret": secret, "code": code, **members}
    return await key.post(path(rp), json={name: value for name, value in body.items() if value is not None})


async def enabled(key: httpx.AsyncClient, rp: RelyingParty, clock, **members: Any) -> Document:
    answer = await enable(key, rp, clock, **members)
    assert answer.status_code == 200, answer.text
    return answer.json() if answer.content else {}


async def add_email(key: httpx.AsyncClient, rp: RelyingParty, mailbox: Mailbox, address: str) -> httpx.Response:
    body = {"userId": rp.user["id"], "method": "email", "email": address}
    assert (await key.post("/api/two-factor/send", json=body)).status_code == 200
    code = await two_factor.mailed_code(mailbox, len(mailbox.mails) + 1)
    return await key.post(path(rp), json={"method": "email", "email": address, "code": code})


async def remove(key: httpx.AsyncClient, rp: RelyingParty, **query: str) -> httpx.Response:
    return await key.delete(path(rp), params=query)


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    return {entry["code"] for entries in answer.json().get("fieldErrors", {}).values() for entry in entries}


async def token_of(http: httpx.AsyncClient, rp: RelyingParty) -> str:
    body = {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id}
    answer = await http.post("/api/login", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


# Secrets


@pytest.mark.requirement("users-9-1")
async def test_secret_is_twenty_random_bytes_in_base32_and_base64(key, http, rp) -> None:
    bearer = {"Authorization": f"Bearer {await token_of(http, rp)}"}
    made = [
        (await key.get("/api/two-factor/secret")).json(),
        (await http.get("/api/two-factor/secret", headers=bearer)).json(),
    ]
    assert made[0] != made[1]
    for one in made:
        raw = base64.b64decode(one["secret"])
        assert len(raw) == 20
        assert base64.b32decode(one["secretBase32Encoded"]) == raw


@pytest.mark.requirement("users-9-1")
async def test_secret_requires_api_key_or_token(http) -> None:
    assert (await http.get("/api/two-factor/secret")).status_code == 401
    assert (await http.get("/api/two-factor/secret", headers={"Authorization": "Bearer no"})).status_code == 401


# Adding


@pytest.mark.requirement("users-9-2")
async def test_first_method_returns_ten_recovery_codes_and_second_none(key, rp, clock) -> None:
    given = (await enabled(key, rp, clock, name="Phone"))["recoveryCodes"]
    assert len(set(given)) == 10
    assert all(re.fullmatch("[A-Z2-9]{5}-[A-Z2-9]{5}", code) for code in given)
    encoded = base64.b32encode(base64.b64decode(OTHER_SECRET)).decode().lower()
    code = two_factor.code(clock.now(), secret=OTHER_SECRET)
    second = await enable(key, rp, clock, secret=None, secretBase32Encoded=encoded, code=code)
    assert (second.status_code, second.content) == (200, b"")
    first, other = await methods_of(key, rp)
    assert first["authenticator"] == {"algorithm": "HmacSHA1", "codeLength": 6, "timeStep": 30}
    assert (first["method"], first["name"], first["lastUsed"], "secret" in first) == (
        "authenticator",
        "Phone",
        False,
        False,
    )
    assert re.fullmatch("[A-Z0-9]{4}", first["id"]) and first["id"] != other["id"]
    assert await codes_of(key, rp) == given


@pytest.mark.requirement("users-9-2")
async def test_wrong_code_is_421_and_adds_nothing(key, rp, clock) -> None:
    answer = await enable(key, rp, clock, code=two_factor.wrong_code(clock.now()))
    assert (answer.status_code, answer.content) == (421, b"")
    assert await methods_of(key, rp) == []


@pytest.mark.requirement("users-9-2")
async def test_user_manages_methods_with_access_token(key, http, rp, clock) -> None:
    bearer = {"Authorization": f"Bearer {await token_of(http, rp)}"}
    http.cookies.clear()
    body = {"method": "authenticator", "secret": two_factor.SECRET, "code": two_factor.code(clock.now())}
    assert (await http.post("/api/user/two-factor", json=body)).status_code == 401
    assert (await http.post(f"/api/user/two-factor/{UNKNOWN_ID}", json=body, headers=bearer)).status_code == 404
    assert (await http.post("/api/user/two-factor", json=body, headers=bearer)).status_code == 200
    (method,) = await methods_of(key, rp)
    query = {"methodId": method["id"], "code": two_factor.code(clock.now(), steps=1)}
    assert (await http.delete("/api/user/two-factor", params=query, headers=bearer)).status_code == 200
    assert await methods_of(key, rp) == []


@pytest.mark.requirement("attack-42")
async def test_attack_42_cookie_alone_cannot_add_method(key, http, rp, clock) -> None:
    http.cookies.set("access_token", await token_of(http, rp))
    body = {"method": "authenticator", "secret": two_factor.SECRET, "code": two_factor.code(clock.now())}
    simple = http.build_request("POST", "/api/user/two-factor", content=json.dumps(body).encode())
    assert "Content-Type" not in simple.headers
    assert (await http.send(simple)).status_code == 401
    assert await methods_of(key, rp) == []
    assert (await http.post("/api/user/two-factor", json=body)).status_code == 200


@pytest.mark.requirement("attack-46")
async def test_token_without_second_factor_cannot_add_method(key, http, rp, clock) -> None:
    settings = {"multiFactorConfiguration": {"loginPolicy": "Disabled"}}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": settings})
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}})
    bearer = {"Authorization": f"Bearer {await token_of(http, rp)}"}
    body = {"method": "authenticator", "secret": OTHER_SECRET}
    body["code"] = two_factor.code(clock.now(), secret=OTHER_SECRET)
    http.cookies.clear()
    answer = await http.post("/api/user/two-factor", json=body, headers=bearer)
    assert answer.status_code == 400, answer.text
    assert [one["code"] for one in answer.json()["generalErrors"]] == ["[TwoFactorRequired]"]
    assert len(await methods_of(key, rp)) == 1
    assert (await key.post(path(rp), json=body)).status_code == 200


WRONG: dict[str, tuple[Document, str]] = {
    "no method": ({"method": None}, "[blank]method"),
    "unknown method": ({"method": "pigeon"}, "[invalid]method"),
    "no code": ({"code": None}, "[blank]code"),
    "no secret": ({"secret": None, "code": "123456"}, "[blank]secret"),
    "short secret": ({"secret": "YWJj", "code": "123456"}, "[invalid]secret"),
    "bad Base32": ({"secret": None, "code": "1", "secretBase32Encoded": "1!"}, "[invalid]secretBase32Encoded"),
    "no email": ({"method": "email"}, "[blank]email"),
    "no number": ({"method": "sms"}, "[blank]mobilePhone"),
    "bad number": ({"method": "sms", "mobilePhone": "call me"}, "[invalid]mobilePhone"),
    "email is off": ({"method": "email", "email": "a@example.com"}, "[disabled]method"),
    "challenge that does not exist": ({"twoFactorId": "none"}, "[invalid]twoFactorId"),
    "unknown application": ({"applicationId": UNKNOWN_ID}, "[invalid]applicationId"),
}


@pytest.mark.requirement("users-9-2")
@pytest.mark.parametrize("case", WRONG)
async def test_invalid_methods_are_refused(key, rp, clock, case) -> None:
    change, code = WRONG[case]
    assert codes(await enable(key, rp, clock, **change)) == {code}
    assert await methods_of(key, rp) == []


async def test_authenticator_can_be_disabled_and_configured(key, rp, clock) -> None:
    await rp.configure_tenant(multiFactorConfiguration={"authenticator": {"enabled": False}})
    assert codes(await enable(key, rp, clock)) == {"[disabled]method"}


@pytest.mark.requirement("users-9-2")
async def test_duplicate_method_is_refused(key, rp, clock) -> None:
    await enabled(key, rp, clock)
    assert codes(await enable(key, rp, clock, code=two_factor.code(clock.now(), steps=1))) == {"[duplicate]secret"}


@pytest.mark.requirement("users-9-28")
async def test_users_of_other_tenants_are_not_found(api, key, rp, clock, service) -> None:
    other = await relying_party.make(api)
    for client_path in (path(other), f"/api/user/two-factor/{UNKNOWN_ID}"):
        body = {"method": "authenticator", "secret": two_factor.SECRET, "code": two_factor.code(clock.now())}
        assert (await key.post(client_path, json=body)).status_code == 404
        assert (await key.delete(client_path, params={"code": "123456"})).status_code == 404
        assert (await key.put(client_path, json={"methodId": "AAAA"})).status_code == 404
    assert (await key.get(f"/api/user/two-factor/recovery-code/{other.user['id']}")).status_code == 404
    assert (await key.post(f"/api/user/two-factor/recovery-code/{other.user['id']}")).status_code == 404
    body = {"userId": other.user["id"], "method": "email", "email": "a@example.com"}
    assert (await key.post("/api/two-factor/send", json=body)).status_code == 404


# Codes by email and text message


@pytest.mark.requirement("users-9-6")
async def test_email_method_is_added_with_latest_code(key, rp, mailbox) -> None:
    body = {"userId": rp.user["id"], "method": "email", "email": "Second@Example.com"}
    for _ in range(2):
        assert (await key.post("/api/two-factor/send", json=body)).status_code == 200
    first, second = [mail.part("plain").strip() for mail in await mailbox.wait_for(2)]
    assert mailbox.mails[0].recipients == ["second@example.com"]
    wanted = {"method": "email", "email": "second@example.com"}
    assert re.fullmatch("[0-9]{6}", second)
    if first != second:
        assert (await key.post(path(rp), json={**wanted, "code": first})).status_code == 421
    assert (await key.post(path(rp), json={**wanted, "email": "third@example.com", "code": second})).status_code == 421
    assert (await key.post(path(rp), json={**wanted, "code": second})).status_code == 200
    (method,) = await methods_of(key, rp)
    assert (method["method"], method["email"]) == ("email", "second@example.com")


@pytest.mark.requirement("users-9-6")
async def test_of_64_concurrent_uses_of_code_one_adds_method(key, rp, mailbox) -> None:
    body = {"userId": rp.user["id"], "method": "email", "email": "a@example.com"}
    await key.post("/api/two-factor/send", json=body)
    wanted = {"method": "email", "email": "a@example.com", "code": await two_factor.mailed_code(mailbox)}
    found = await asyncio.gather(*(key.post(path(rp), json=wanted) for _ in range(64)))
    assert [answer.status_code for answer in found].count(200) == 1
    assert {answer.status_code for answer in found} <= {200, 400, 421, 503}
    assert len(await methods_of(key, rp)) == 1


@pytest.mark.requirement("users-9-6")
async def test_five_wrong_codes_invalidate_code(key, rp, mailbox) -> None:
    body = {"userId": rp.user["id"], "method": "email", "email": "a@example.com"}
    await key.post("/api/two-factor/send", json=body)
    wanted = {"method": "email", "email": "a@example.com"}
    code = await two_factor.mailed_code(mailbox)
    wrong = "000000" if code != "000000" else "000001"
    for _ in range(5):
        assert (await key.post(path(rp), json={**wanted, "code": wrong})).status_code == 421
    assert (await key.post(path(rp), json={**wanted, "code": code})).status_code == 421


@pytest.mark.requirement("users-9-8")
async def test_phone_method_is_added_with_code_by_sms(key, rp) -> None:
    async with receiving() as receiver:
        await two_factor.enable_sms(rp, receiver.url)
        body = {"userId": rp.user["id"], "method": "sms", "mobilePhone": "+14155550100"}
        assert (await key.post("/api/two-factor/send", json=body)).status_code == 200
        (request,) = await receiver.wait_for(1)
    sent = json.loads(request.body)
    assert sent["phoneNumber"] == "+14155550100"
    wanted = {"method": "sms", "mobilePhone": "+14155550100", "code": sent["textMessage"]}
    assert (await key.post(path(rp), json=wanted)).status_code == 200
    assert (await methods_of(key, rp))[0]["mobilePhone"] == "+14155550100"


@pytest.mark.requirement("core-2-8", "users-9-6")
async def test_codes_are_sent_for_message_methods_only(key, rp, mailbox) -> None:
    about = {"userId": rp.user["id"]}
    app = {**about, "method": "authenticator"}
    assert codes(await key.post("/api/two-factor/send", json=app)) == {"[cannotSend]method"}
    assert codes(await key.post("/api/two-factor/send", json=about)) == {"[blank]method"}
    assert codes(await key.post("/api/two-factor/send", json={"method": "email"})) == {"[missing]userId"}
    sms = {**about, "method": "sms", "mobilePhone": "+14155550100"}
    assert codes(await key.post("/api/two-factor/send", json=sms)) == {"[disabled]method"}
    assert (await key.post("/api/two-factor/send", json={**about, "methodId": "AAAA"})).status_code == 404


@pytest.mark.requirement("users-9-21")
async def test_sent_codes_are_limited_by_tenant(key, rp, mailbox) -> None:
    limit = {"enabled": True, "limit": 2, "timePeriodInSeconds": 60}
    await rp.configure_tenant(rateLimitConfiguration={"sendTwoFactor": limit})
    body = {"userId": rp.user["id"], "method": "email", "email": "a@example.com"}
    statuses = [(await key.post("/api/two-factor/send", json=body)).status_code for _ in range(3)]
    assert statuses == [200, 200, 503]


# Naming and removing


@pytest.mark.requirement("users-9-4")
async def test_method_can_be_renamed_or_unnamed(key, rp, clock) -> None:
    await enabled(key, rp, clock, name="Phone")
    (method,) = await methods_of(key, rp)
    assert (await key.put(path(rp), json={"methodId": method["id"], "name": "Tablet"})).status_code == 200
    assert (await methods_of(key, rp))[0]["name"] == "Tablet"
    assert (await key.put(path(rp), json={"methodId": method["id"]})).status_code == 200
    assert "name" not in (await methods_of(key, rp))[0]
    assert (await key.put(path(rp), json={"methodId": "AAAA"})).status_code == 404
    assert codes(await key.put(path(rp), json={})) == {"[blank]methodId"}


@pytest.mark.requirement("users-9-5")
async def test_removing_last_method_removes_recovery_codes(key, rp, clock, mailbox) -> None:
    given = (await enabled(key, rp, clock))["recoveryCodes"]
    assert (await add_email(key, rp, mailbox, "a@example.com")).status_code == 200
    app, email = await methods_of(key, rp)
    assert (await remove(key, rp, methodId=app["id"], code=two_factor.wrong_code(clock.now()))).status_code == 421
    assert codes(await remove(key, rp, methodId=app["id"])) == {"[blank]code"}
    assert codes(await remove(key, rp, code=two_factor.code(clock.now(), steps=1))) == {"[blank]methodId"}
    assert (await remove(key, rp, methodId="AAAA", code="123456")).status_code == 404
    right = {"methodId": app["id"], "code": two_factor.code(clock.now(), steps=1)}
    assert (await key.request("DELETE", path(rp), json=right)).status_code == 200
    assert [one["id"] for one in await methods_of(key, rp)] == [email["id"]]
    assert await codes_of(key, rp) == given
    body = {"userId": rp.user["id"], "methodId": email["id"]}
    assert (await key.post("/api/two-factor/send", json=body)).status_code == 200
    code = await two_factor.mailed_code(mailbox, 2)
    assert (await remove(key, rp, methodId=email["id"], code=code)).status_code == 200
    assert (await methods_of(key, rp), await codes_of(key, rp)) == ([], [])


@pytest.mark.requirement("users-9-5")
async def test_recovery_code_removes_all_methods(key, rp, clock) -> None:
    given = (await enabled(key, rp, clock))["recoveryCodes"]
    code = two_factor.code(clock.now(), secret=OTHER_SECRET)
    await enabled(key, rp, clock, secret=OTHER_SECRET, code=code)
    assert (await remove(key, rp, code=given[3].lower().replace("-", " "))).status_code == 200
    assert (await methods_of(key, rp), await codes_of(key, rp)) == ([], [])


@pytest.mark.requirement("users-9-5")
async def test_of_64_concurrent_uses_of_recovery_code_one_removes_methods(key, rp, clock) -> None:
    given = (await enabled(key, rp, clock))["recoveryCodes"]
    found = await asyncio.gather(*(remove(key, rp, code=given[0]) for _ in range(64)))
    assert [answer.status_code for answer in found].count(200) == 1
    assert await methods_of(key, rp) == []


@pytest.mark.requirement("attack-48")
async def test_attack_48_attempts_to_remove_method_are_limited(key, rp, clock) -> None:
    await enabled(key, rp, clock)
    (method,) = await methods_of(key, rp)
    wrong = two_factor.wrong_code(clock.now())
    statuses = [(await remove(key, rp, methodId=method["id"], code=wrong)).status_code for _ in range(11)]
    assert statuses == [421] * 10 + [503]
    right = {"methodId": method["id"], "code": two_factor.code(clock.now(), steps=1)}
    assert (await remove(key, rp, **right)).status_code == 503
    clock.advance(seconds=1000)  # time moves for codes, and not for the counters in Redis
    assert (await remove(key, rp, methodId=method["id"], code=two_factor.code(clock.now()))).status_code == 503


# Recovery codes


@pytest.mark.requirement("users-9-16")
async def test_new_recovery_codes_replace_previous_ones(key, rp, clock) -> None:
    recovery = f"/api/user/two-factor/recovery-code/{rp.user['id']}"
    assert codes(await key.post(recovery)) == {"[invalid]userId"}
    before = (await enabled(key, rp, clock))["recoveryCodes"]
    fresh = (await key.post(recovery)).json()["recoveryCodes"]
    assert len(set(fresh)) == 10 and not set(fresh) & set(before)
    assert await codes_of(key, rp) == fresh
    assert (await remove(key, rp, code=before[0], methodId="AAAA")).status_code == 404


@pytest.mark.requirement("users-9-16")
async def test_recovery_codes_and_secrets_are_sealed_at_rest(key, rp, clock, service) -> None:
    given = (await enabled(key, rp, clock))["recoveryCodes"]
    stored = await internals.database(service).motor["users"].find_one({"_id": rp.user["id"]})
    assert given[0] not in str(stored) and two_factor.SECRET not in str(stored)


# What goes with it


@pytest.mark.requirement("oauth-2.2-24", "users-9-24")
@pytest.mark.parametrize("is_on", [True, False])
async def test_first_method_revokes_refresh_tokens_if_configured(key, http, rp, clock, is_on) -> None:
    policy = {"refreshTokenRevocationPolicy": {"onMultiFactorEnable": is_on}}
    await rp.configure_tenant(jwtConfiguration=policy)
    await token_of(http, rp)
    tokens = f"/api/jwt/refresh?userId={rp.user['id']}"
    assert len((await key.get(tokens)).json()["refreshTokens"]) == 1
    await enabled(key, rp, clock)
    assert len((await key.get(tokens)).json()["refreshTokens"]) == (0 if is_on else 1)


@pytest.mark.requirement("event-jwt.refresh-token.revoke", "users-9-24")
async def test_vetoed_revocation_changes_nothing(key, http, rp, clock, service) -> None:
    policy = {"refreshTokenRevocationPolicy": {"onMultiFactorEnable": True}}
    await rp.configure_tenant(jwtConfiguration=policy)
    await token_of(http, rp)
    async with receiving(answers(500)) as receiver:
        subscriber = Subscriber(rp.api, receiver, rp.tenant["id"])
        await subscriber.subscribe(["jwt.refresh-token.revoke", "user.two-factor.method.add"], "AbsoluteMajority")
        async with veto.unchanged(service, rp.tenant["id"]):
            assert (await enable(key, rp, clock)).status_code == 504
        receiver.behaviour = answers(200)
        assert (await enable(key, rp, clock)).status_code == 200


@pytest.mark.requirement("event-user.two-factor.method.add", "event-user.two-factor.method.remove", "users-9-27")
async def test_adding_and_removing_methods_emits_events(key, rp, clock) -> None:
    async with receiving() as receiver:
        subscriber = Subscriber(rp.api, receiver, rp.tenant["id"])
        await subscriber.subscribe(["user.two-factor.method.add", "user.two-factor.method.remove", "user.update"])
        given = (await enabled(key, rp, clock, name="Phone", eventInfo={"deviceName": "phone"}))["recoveryCodes"]
        (added,) = await subscriber.received("user.two-factor.method.add")
        (method,) = await methods_of(key, rp)
        assert (added["method"], method["name"]) == (method, "Phone")
        assert added["info"]["deviceName"] == "phone"
        assert (added["linkedObjectId"], added["user"]["twoFactor"]["recoveryCodes"]) == (rp.user["id"], [])
        assert two_factor.SECRET not in json.dumps(added)
        await remove(key, rp, code=given[0])
        (removed,) = await subscriber.received("user.two-factor.method.remove")
        assert (removed["method"], removed["user"]["twoFactor"]["methods"]) == (added["method"], [])


@pytest.mark.requirement("core-18-templates-20", "users-9-26")
async def test_user_is_mailed_about_added_and_removed_methods(key, rp, clock, mailbox) -> None:
    texts = {"Add": "added {{ method.method }}", "Remove": "removed {{ method.method }}"}
    configuration = {}
    for deed, text in texts.items():
        body = {"name": new_id(), "defaultSubject": "Notice", "defaultHtmlTemplate": text, "defaultTextTemplate": text}
        made = await rp.api.post("/api/email/template", json={"emailTemplate": body})
        configuration[f"twoFactorMethod{deed}EmailTemplateId"] = made.json()["emailTemplate"]["id"]
    await rp.configure_tenant(emailConfiguration=configuration)
    given = (await enabled(key, rp, clock))["recoveryCodes"]
    assert (await mailbox.wait_for(1))[0].part("plain").strip() == "added authenticator"
    await remove(key, rp, code=given[0])
    assert (await mailbox.wait_for(2))[1].part("plain").strip() == "removed authenticator"


@pytest.mark.requirement("users-9-3")
async def test_required_method_is_added_during_login(key, http, rp, clock) -> None:
    await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": "Required"})
    body = {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id}
    waiting = await http.post("/api/login", json=body)
    assert waiting.status_code == 242
    assert waiting.json()["configurableMethods"] == ["authenticator"]
    two_factor_id = waiting.json()["twoFactorId"]
    added = await enabled(key, rp, clock, twoFactorId=two_factor_id)
    assert len(added["recoveryCodes"]) == 10
    done = await http.post("/api/two-factor/login", json={"twoFactorId": two_factor_id, "code": added["code"]})
    assert done.status_code == 200, done.text
    other = await relying_party.make_user(rp.api, rp.tenant["id"])
    waits = (await http.post("/api/login", json=body)).json()["twoFactorId"]
    code = two_factor.code(clock.now(), secret=OTHER_SECRET)
    wanted = {"method": "authenticator", "secret": OTHER_SECRET, "twoFactorId": waits, "code": code}
    answer = await key.post(f"/api/user/two-factor/{other['id']}", json=wanted)
    assert codes(answer) == {"[invalid]twoFactorId"}
