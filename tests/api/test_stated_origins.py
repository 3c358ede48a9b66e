"""Only callers with an API key may state the user's `ipAddress` and `eventInfo.location`."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests import relying_party
from tests.conftest import UNKNOWN_ID
from tests.receiver import receiving
from tests.relying_party import RelyingParty
from tests.subscriber import Subscriber

STATED = "198.51.100.66"
OWN = "192.0.2.31"
PLACE = {"city": "Sydney", "country": "AU", "latitude": -33.87, "longitude": 151.21}
INFO = {"ipAddress": STATED, "location": PLACE, "deviceName": "phone"}


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    made = await relying_party.make(api)
    members = {
        "loginConfiguration": {
            "allowTokenRefresh": True,
            "generateRefreshTokens": True,
            "requireAuthentication": False,
        },
        "passwordlessConfiguration": {"enabled": True},
    }
    await made.patch(f"/api/application/{made.client_id}", {"application": members})
    return made


@pytest.fixture
def anonymous(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """A caller without a key."""
    http.headers["X-Forwarded-For"] = OWN
    return http


async def records(key: httpx.AsyncClient, rp: RelyingParty) -> list[dict[str, Any]]:
    answer = await key.get("/api/user/recent-login", params={"userId": rp.user["id"]})
    return list(answer.json()["logins"])


@pytest.mark.requirement("audit-a6")
async def test_login_without_key_cannot_state_address_or_location(key, anonymous, rp) -> None:
    async with receiving() as receiver:
        subscriber = Subscriber(rp.api, receiver, rp.tenant["id"])
        await subscriber.subscribe(("user.login.success", "user.login.suspicious"))
        berlin = {"city": "Berlin", "latitude": 52.52, "longitude": 13.405}
        await rp.log_in_by_api(key, eventInfo={"location": berlin})
        await subscriber.received("user.login.success")
        answer = await rp.log_in_by_api(anonymous, ipAddress=STATED, eventInfo=INFO)
        assert answer.status_code == 200 and "threatsDetected" not in answer.json()
        (event,) = await subscriber.received("user.login.success")
    assert event["ipAddress"] == event["info"]["ipAddress"] == OWN
    assert "location" not in event["info"]
    assert event["info"]["deviceName"] == "phone"
    record = (await records(key, rp))[0]
    assert record["ipAddress"] == OWN and "location" not in record


@pytest.mark.requirement("audit-a6")
async def test_login_with_key_states_address_and_location(key, rp) -> None:
    answer = await rp.log_in_by_api(key, eventInfo=INFO)
    assert answer.status_code == 200
    record = (await records(key, rp))[0]
    assert (record["ipAddress"], record["location"]["city"]) == (STATED, "Sydney")


@pytest.mark.requirement("audit-a6")
async def test_other_logins_without_key_cannot_state_origin(key, anonymous, rp) -> None:
    """Every public endpoint that accepts an address: refresh, passwordless login, ping by access token."""
    started = await key.post("/api/passwordless/start", json={"applicationId": rp.client_id, "loginId": rp.login_id})
    said = {"ipAddress": STATED, "eventInfo": INFO}
    done = await anonymous.post("/api/passwordless/login", json={"code": started.json()["code"], **said})
    assert done.status_code == 200
    assert (await records(key, rp))[0]["ipAddress"] == OWN
    refreshed = await anonymous.post(
        "/api/jwt/refresh", json={"refreshToken": done.json()["refreshToken"], "eventInfo": INFO}
    )
    assert refreshed.status_code == 200
    assert (await records(key, rp))[0]["ipAddress"] == OWN
    bearer = {"Authorization": f"Bearer {done.json()['token']}"}
    assert (await anonymous.put("/api/login", json=said, headers=bearer)).status_code == 200
    rows = await records(key, rp)
    assert {row["ipAddress"] for row in rows if row["ipAddress"] != "127.0.0.1"} == {OWN}
    assert all("location" not in row for row in rows)


@pytest.mark.requirement("audit-a6")
async def test_key_is_recognized_at_public_routes(key, rp) -> None:
    started = await key.post("/api/passwordless/start", json={"applicationId": rp.client_id, "loginId": rp.login_id})
    done = await key.post("/api/passwordless/login", json={"code": started.json()["code"], "ipAddress": STATED})
    assert done.status_code == 200
    assert (await records(key, rp))[0]["ipAddress"] == STATED


@pytest.mark.requirement("audit-a6")
@pytest.mark.parametrize("address", ["not an address", "198.51.100.256", "1.2.3.4, 5.6.7.8", "::1::", "x" * 64, "<b>"])
async def test_invalid_address_is_refused_and_changes_nothing(key, anonymous, rp, address) -> None:
    before = await records(key, rp)
    for body, path in (
        ({"ipAddress": address}, "ipAddress"),
        ({"eventInfo": {"ipAddress": address}}, "eventInfo.ipAddress"),
    ):
        answer = await rp.log_in_by_api(key, **body)
        assert answer.status_code == 400, answer.text
        assert [one["code"] for one in answer.json()["fieldErrors"][path]] == [f"[invalid]{path}"]
    ping = f"/api/login/{rp.user['id']}/{rp.client_id}"
    assert (await key.put(ping, params={"ipAddress": address})).status_code == 400
    change = await key.patch(
        f"/api/user/{rp.user['id']}", json={"user": {"firstName": "Changed"}, "eventInfo": {"ipAddress": address}}
    )
    assert change.status_code == 400
    assert (await key.get(f"/api/user/{rp.user['id']}")).json()["user"].get("firstName") != "Changed"
    assert await records(key, rp) == before
    assert (await rp.log_in_by_api(anonymous, ipAddress=address)).status_code == 200


@pytest.mark.requirement("audit-a6")
@pytest.mark.parametrize("path", ["/api/two-factor/login", "/api/passwordless/login", "/api/identity-provider/login"])
async def test_invalid_address_is_refused_at_every_kind_of_login(key, rp, path) -> None:
    body = {
        "applicationId": rp.client_id,
        "code": "x",
        "twoFactorId": "x",
        "identityProviderId": UNKNOWN_ID,
        "eventInfo": {"ipAddress": "no address"},
    }
    answer = await key.post(path, json=body)
    assert answer.status_code == 400
    assert list(answer.json()["fieldErrors"]) == ["eventInfo.ipAddress"]


@pytest.mark.requirement("audit-a6")
@pytest.mark.parametrize(
    ("stated", "kept"),
    [(" 198.51.100.66 ", STATED), ("::ffff:198.51.100.66", STATED), ("2001:DB8:0::1", "2001:db8::1"), ("", None)],
)
async def test_addresses_are_stored_in_canonical_form(key, rp, stated, kept) -> None:
    assert (await rp.log_in_by_api(key, ipAddress=stated)).status_code == 200
    assert (await records(key, rp))[0]["ipAddress"] == (kept or "127.0.0.1")
