"""/api/user/forgot-password and /api/user/change-password over HTTP, with real mails."""

from __future__ import annotations

import pytest

from tests.resetting import NEW_PASSWORD, Resetting, resetting


@pytest.fixture
async def place(service, api):
    async with resetting(service, api) as found:
        yield found


async def test_a_mailed_id_sets_a_password_once_and_logs_the_user_in_once(place: Resetting) -> None:
    change_id = await place.mailed_id(state={"back": "/home"})
    assert "back=/home" in place.mailbox.mails[0].part("plain")
    assert (await place.nobody.get(f"/api/user/change-password/{change_id}")).status_code == 200
    answer = await place.change(change_id)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body.keys() == {"oneTimePassword", "state"} and body["state"] == {"back": "/home"}
    assert (await place.change(change_id)).status_code == 404
    assert (await place.log_in()).status_code == 404
    assert (await place.log_in(NEW_PASSWORD)).status_code == 200
    once = await place.log_in_once(body["oneTimePassword"])
    assert once.status_code == 200, once.text
    assert once.json()["state"] == {"back": "/home"} and "refreshToken" in once.json()
    assert (await place.log_in_once(body["oneTimePassword"])).status_code == 404
