"""Events and mails of logins: every login method, new devices, and impossible travel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import internals, relying_party
from tests.conftest import EMAIL_TEMPLATE, SUPER_KEY, checking_client
from tests.mailbox import Mailbox
from tests.mailbox import receiving as receiving_mails
from tests.mmdb import BERLIN, SYDNEY, write
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, RelyingParty
from tests.subscriber import Subscriber
from tests.veto import unchanged

Document = dict[str, Any]

FAMILY = ("user.login.failed", "user.login.new-device", "user.login.success", "user.login.suspicious")
IN_BERLIN = {"location": {"city": "Berlin", "latitude": 52.52, "longitude": 13.405}}
IN_SYDNEY = {"location": {"city": "Sydney", "latitude": -33.87, "longitude": 151.21}}


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    return await relying_party.make_for_every_login(api)


@pytest.fixture
async def subscriber(api: httpx.AsyncClient, rp: RelyingParty) -> AsyncIterator[Subscriber]:
    """Receives login events of the relying party's tenant."""
    async with receiving() as receiver:
        found = Subscriber(api, receiver, rp.tenant["id"])
        await found.subscribe(FAMILY)
        yield found


@pytest.fixture
async def mailbox(api: httpx.AsyncClient, rp: RelyingParty) -> AsyncIterator[Mailbox]:
    """The mailbox of login notifications; the subject names the kind, the text shows what the template read."""
    names = {"loginNewDeviceEmailTemplateId": "new device", "loginSuspiciousEmailTemplateId": "suspicious"}
    ids = {}
    for name, subject in names.items():
        text = "{{ threatsDetected|default([])|join(',') }} {{ event.info.location.city }}"
        template = {"defaultSubject": subject, "defaultTextTemplate": text, "defaultHtmlTemplate": text}
        made = await api.post("/api/email/template", json={"emailTemplate": {"name": new_id(), **template}})
        assert made.status_code == 200, made.text
        ids[name] = made.json()["emailTemplate"]["id"]
    async with receiving_mails() as box:
        await rp.configure_tenant(emailConfiguration=box.configuration(**ids))
        yield box


async def log_in(client: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> httpx.Response:
    return await rp.log_in_by_api(client, **{"noJWT": True, **members})


# Every way of logging in


@pytest.mark.requirement("event-user.login.success-3")
async def test_login_event_has_the_authentication_type(subscriber, key, http, rp, service) -> None:
    async def received_as(kind: str) -> Document:
        (event,) = await subscriber.received("user.login.success")
        assert (event["authenticationType"], event["applicationId"]) == (kind, rp.client_id)
        assert event["user"]["id"] == rp.user["id"] and event["ipAddress"] and event["connectorId"]
        return event

    assert (await log_in(key, rp)).status_code == 200
    await received_as("PASSWORD")
    assert (await key.put(f"/api/login/{rp.user['id']}/{rp.client_id}")).status_code == 200
    await received_as("PING")
    granted = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD}
    assert (await rp.token(http, **granted)).status_code == 200
    await received_as("PASSWORD")
    started = await key.post("/api/passwordless/start", json={"applicationId": rp.client_id, "loginId": rp.login_id})
    assert (await http.post("/api/passwordless/login", json=started.json())).status_code == 200
    await received_as("PASSWORDLESS")
    async with checking_client(service.base_url) as browser:
        await rp.code(browser)
        new, success = await subscriber.received("user.login.new-device", "user.login.success")
        assert new["authenticationType"] == success["authenticationType"] == "PASSWORD"
        await rp.code(browser)
        await received_as("PING")


@pytest.mark.requirement("event-user.login.success-4")
async def test_registration_refresh_and_incomplete_logins_raise_no_login_event(subscriber, key, rp) -> None:
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id, passwordChangeRequired=True)
    assert (await log_in(key, rp, loginId=user["email"])).status_code == 203
    refresh_token = (await log_in(key, rp, noJWT=False)).json()["refreshToken"]
    assert (await key.post("/api/jwt/refresh", json={"refreshToken": refresh_token})).status_code == 200
    (success,) = await subscriber.received("user.login.success")
    assert success["user"]["id"] == rp.user["id"]


@pytest.mark.requirement("event-user.login.failed")
async def test_incorrect_password_raises_an_event_everywhere(subscriber, key, http, rp, service) -> None:
    async def received_failure() -> None:
        (event,) = await subscriber.received("user.login.failed")
        assert (event["authenticationType"], event["reason"]) == ("PASSWORD", {"code": "credentials"})
        assert (event["user"]["id"], event["applicationId"]) == (rp.user["id"], rp.client_id)

    assert (await log_in(key, rp, password="wrong")).status_code == 404
    await received_failure()
    granted = {"grant_type": "password", "username": rp.login_id, "password": "wrong"}
    assert (await rp.token(http, **granted)).status_code == 400
    await received_failure()
    async with checking_client(service.base_url) as browser:
        shown = await rp.authorize(browser)
        assert (await rp.submit(browser, shown, password="wrong")).status_code == 200
    await received_failure()
    assert (await log_in(key, rp, loginId=f"{new_id()}@example.com")).status_code == 404
    assert (await log_in(key, rp)).status_code == 200
    await subscriber.received("user.login.success")


# New devices


@pytest.mark.requirement("event-user.login.new-device", "users-10-17", "users-10-22")
async def test_a_caller_of_the_api_says_that_a_device_is_new(subscriber, key, rp, mailbox) -> None:
    assert (await log_in(key, rp)).status_code == 200
    await subscriber.received("user.login.success")
    assert (await log_in(key, rp, newDevice=True, eventInfo=IN_BERLIN)).status_code == 200
    new, success = await subscriber.received("user.login.new-device", "user.login.success")
    usual = {"type", "id", "linkedObjectId"}
    assert {k: v for k, v in new.items() if k not in usual} == {k: v for k, v in success.items() if k not in usual}
    (mail,) = await mailbox.wait_for(1)
    assert (mail.recipients, mail.message["Subject"]) == ([rp.login_id], "new device")
    assert mail.part("plain").strip() == "Berlin"


@pytest.mark.requirement("event-user.login.new-device", "event-user.login.suspicious", "event-user.password.breach")
async def test_events_come_in_their_order(subscriber, key, rp) -> None:
    password = {"loginId": rp.login_id, "password": "letmein123"}
    assert (await key.post("/api/user/change-password", json=password)).status_code == 200
    detection = {"enabled": True, "matchMode": "Low", "onLogin": "RecordOnly"}
    await rp.configure_tenant(passwordValidationRules={"breachDetection": detection})
    await subscriber.subscribe(["user.password.breach"])
    await log_in(key, rp, **password, eventInfo=IN_BERLIN)
    await log_in(key, rp, **password, newDevice=True, eventInfo=IN_SYDNEY)
    await subscriber.receiver.wait_for(6)
    log = await key.get("/api/system/webhook-event-log/search", params={"event": rp.user["id"], "orderBy": "sequence"})
    found = [entry["eventType"] for entry in log.json()["webhookEventLogs"]]
    assert found == [
        "user.password.breach",
        "user.login.success",
        "user.login.new-device",
        "user.login.suspicious",
        "user.password.breach",
        "user.login.success",
    ]


@pytest.mark.requirement("oauth-1.8-9", "users-10-18")
async def test_browser_is_new_once_per_user_and_after_expiry(subscriber, rp, service, clock) -> None:
    other = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    await rp.configure_tenant(ssoConfiguration={"deviceTrustTimeToLiveInSeconds": 1000})
    new = ("user.login.new-device", "user.login.success")

    async def log_in_at(browser: httpx.AsyncClient, login_id: str) -> None:
        shown = await rp.authorize(browser, prompt="login")
        assert (await rp.submit(browser, shown, loginId=login_id)).status_code == 302

    async with checking_client(service.base_url) as browser:
        for login_id, expected in ((rp.login_id, new), (rp.login_id, new[1:]), (other["email"], new)):
            await log_in_at(browser, login_id)
            await subscriber.received(*expected)
        cookies = [cookie for cookie in browser.cookies.jar if cookie.name.startswith("fusionauth.known-device.")]
        assert len(cookies) == 2 and all(cookie.has_nonstandard_attr("HttpOnly") for cookie in cookies)
        assert not any(rp.user["id"] in f"{cookie.name}{cookie.value}" for cookie in cookies)
        clock.advance(seconds=600)
        await log_in_at(browser, rp.login_id)
        await subscriber.received(*new[1:])
        clock.advance(seconds=600)
        kept = {cookie.name: cookie.value for cookie in cookies}
    async with checking_client(service.base_url, cookies=kept) as browser:
        await log_in_at(browser, other["email"])
        await subscriber.received(*new)


@pytest.mark.requirement("users-10-18")
async def test_forged_or_foreign_cookie_does_not_identify_a_device(subscriber, rp, service) -> None:
    other = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    async with checking_client(service.base_url) as browser:
        for login_id in (rp.login_id, other["email"]):
            shown = await rp.authorize(browser, prompt="login")
            await rp.submit(browser, shown, loginId=login_id)
            await subscriber.received("user.login.new-device", "user.login.success")
        names = [cookie for cookie in browser.cookies.jar if cookie.name.startswith("fusionauth.known-device.")]
    one, two = names
    for value in (two.value, "9" * 13 + ".x", "x", "9" * 400, one.value + "x"):
        async with checking_client(service.base_url, cookies={one.name: value, two.name: one.value}) as browser:
            shown = await rp.authorize(browser)
            await rp.submit(browser, shown)
            await subscriber.received("user.login.new-device", "user.login.success")


# Places


@pytest.mark.requirement("event-user.login.suspicious", "users-10-19", "users-10-20", "users-10-22")
async def test_impossible_travel_raises_an_event(subscriber, key, rp, mailbox, clock) -> None:
    assert "threatsDetected" not in (await log_in(key, rp, eventInfo=IN_BERLIN)).json()
    await subscriber.received("user.login.success")
    clock.advance(seconds=3600)
    answer = await log_in(key, rp, eventInfo=IN_SYDNEY)
    assert (answer.status_code, answer.json()["threatsDetected"]) == (200, ["ImpossibleTravel"])
    suspicious, success = await subscriber.received("user.login.suspicious", "user.login.success")
    assert suspicious["threatsDetected"] == ["ImpossibleTravel"] and "threatsDetected" not in success
    assert suspicious["info"]["location"]["city"] == "Sydney"
    (mail,) = await mailbox.wait_for(1)
    assert (mail.message["Subject"], mail.part("plain").strip()) == ("suspicious", "ImpossibleTravel Sydney")
    clock.advance(seconds=20 * 3600)
    assert "threatsDetected" not in (await log_in(key, rp, eventInfo=IN_BERLIN)).json()


@pytest.mark.requirement("users-10-19")
async def test_logins_without_location_are_not_suspicious(subscriber, key, rp) -> None:
    await log_in(key, rp, eventInfo=IN_BERLIN)
    body = {"userId": rp.user["id"], "applicationId": rp.client_id, "eventInfo": IN_SYDNEY}
    assert "threatsDetected" not in (await key.put("/api/login", json=body)).json()
    assert "threatsDetected" not in (await log_in(key, rp)).json()
    assert "threatsDetected" not in (await log_in(key, rp, eventInfo=IN_BERLIN)).json()
    await subscriber.received(*["user.login.success"] * 4)


async def test_location_is_not_part_of_the_user_in_the_api(key, rp) -> None:
    await log_in(key, rp, eventInfo=IN_BERLIN)
    assert "52.52" not in (await key.get(f"/api/user/{rp.user['id']}")).text


@pytest.mark.requirement("users-10-21")
async def test_places_come_from_the_operators_file(build, tmp_path) -> None:
    pytest.importorskip("maxminddb", reason="a package of setup.py: make install brings it")
    file = write(tmp_path / "city.mmdb", {"203.0.113.0/24": BERLIN, "198.51.100.0/24": SYDNEY})
    async with build(geoip__file=str(file)) as service:
        headers = {"Authorization": SUPER_KEY}
        async with checking_client(service.base_url, headers=headers) as api, receiving() as receiver:
            rp = await relying_party.make(api)
            subscriber = Subscriber(api, receiver, rp.tenant["id"])
            await subscriber.subscribe(FAMILY)
            assert (await log_in(api, rp, ipAddress="203.0.113.7")).status_code == 200
            (success,) = await subscriber.received("user.login.success")
            berlin = {"city": "Berlin", "country": "DE", "latitude": 52.52, "longitude": 13.405}
            expected = {**berlin, "region": "BE", "zipcode": "10117", "displayString": "Berlin, BE, DE"}
            assert success["info"]["location"] == expected
            answer = await log_in(api, rp, ipAddress="198.51.100.7")
            assert answer.json()["threatsDetected"] == ["ImpossibleTravel"]
            await subscriber.received("user.login.suspicious", "user.login.success")
            records = (await api.get("/api/user/recent-login", params={"userId": rp.user["id"]})).json()["logins"]
            assert [one.get("location", {}).get("city") for one in records] == ["Sydney", "Berlin", None]


@pytest.mark.requirement("users-10-22")
async def test_templates_of_the_application_win_and_without_one_no_mail_goes(key, rp, service) -> None:
    assert (await log_in(key, rp, newDevice=True)).status_code == 200
    mails = internals.database(service).motor["mails"]
    assert await mails.count_documents({"tenantId": rp.tenant["id"]}) == 0
    change = {"emailConfiguration": {"loginNewDeviceEmailTemplateId": EMAIL_TEMPLATE}}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": change})
    assert (await log_in(key, rp, newDevice=True)).status_code == 200
    assert await mails.count_documents({"tenantId": rp.tenant["id"]}) == 0, "there is no mail server yet"
    await rp.configure_tenant(emailConfiguration={"defaultFromEmail": "service@example.com"})
    assert (await log_in(key, rp, newDevice=True)).status_code == 200
    assert await mails.count_documents({"tenantId": rp.tenant["id"]}) == 1


@pytest.mark.requirement("self-service-29")
async def test_first_login_of_a_user_mails_nothing_about_a_new_device(key, rp, service) -> None:
    emails = {"loginNewDeviceEmailTemplateId": EMAIL_TEMPLATE, "defaultFromEmail": "service@example.com"}
    await rp.configure_tenant(emailConfiguration=emails)
    mails = internals.database(service).motor["mails"]
    for sent in (0, 1):
        answer = await log_in(key, rp, newDevice=True)
        assert answer.status_code == 200
        assert await mails.count_documents({"tenantId": rp.tenant["id"]}) == sent


# Vetoes of a login without a password


@pytest.mark.requirement("event-user.email.verified-2", "event-user.login.success-6")
async def test_a_veto_leaves_the_code_good_and_the_address_unverified(api, key, http, rp, service) -> None:
    templates = {"verificationEmailTemplateId": EMAIL_TEMPLATE, "passwordlessEmailTemplateId": EMAIL_TEMPLATE}
    await rp.configure_tenant(emailConfiguration={"verifyEmail": True, **templates})
    registration = {"applicationId": rp.client_id}
    user = {"email": f"{new_id()}@example.com", "password": PASSWORD}
    made = (await key.post("/api/user/registration", json={"user": user, "registration": registration})).json()["user"]
    body = {"applicationId": rp.client_id, "loginId": user["email"], "state": {"at": "the door"}}
    code = (await key.post("/api/passwordless/start", json=body)).json()["code"]
    assert (await http.post("/api/passwordless/send", json={"code": code})).status_code == 200
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, rp.tenant["id"])
        types = ("user.email.verified", "user.login.success")
        for vetoed in types:
            receiver.behaviour = answers(500)
            await subscriber.subscribe(types, "AbsoluteMajority", vetoable=[vetoed])
            async with unchanged(service, rp.tenant["id"]):
                assert (await http.post("/api/passwordless/login", json={"code": code})).status_code == 504
        receiver.behaviour = answers(200)
        answer = await http.post("/api/passwordless/login", json={"code": code})
    assert (answer.status_code, answer.json()["user"]["id"]) == (200, made["id"])
    assert answer.json()["user"]["verified"] is True
