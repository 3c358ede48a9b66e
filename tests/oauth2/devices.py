"""A device without a keyboard, which obtains codes and polls for tokens."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx

from tests import relying_party
from tests.relying_party import PASSWORD, RelyingParty

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
URL = "https://app.example.com/activate"
GRANTS = ["authorization_code", "refresh_token", "password", DEVICE_GRANT]


async def device_client(api: httpx.AsyncClient, **settings: Any) -> RelyingParty:
    """An application with the device grant, by default without client authentication."""
    usual = {"clientAuthenticationPolicy": "NotRequired", "deviceVerificationURL": URL, "enabledGrants": GRANTS}
    return await relying_party.make(api, **{**usual, **settings})


@dataclasses.dataclass
class Device:
    """A device that has its codes."""

    rp: RelyingParty
    http: httpx.AsyncClient
    given: dict[str, Any]

    @classmethod
    async def begin(cls, rp: RelyingParty, http: httpx.AsyncClient, **form: str) -> Device:
        """A device that has just asked for its codes."""
        answer = await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id, **form})
        assert answer.status_code == 200, answer.text
        return cls(rp, http, answer.json())

    @property
    def device_code(self) -> str:
        return str(self.given["device_code"])

    @property
    def user_code(self) -> str:
        return str(self.given["user_code"])

    async def poll(self, path: str = "/oauth2/token", **form: str | None) -> httpx.Response:
        """Ask for the tokens."""
        usual = {"grant_type": DEVICE_GRANT, "client_id": self.rp.client_id, "device_code": self.device_code}
        merged = {**usual, **form}
        return await self.http.post(path, data={name: value for name, value in merged.items() if value is not None})

    async def tokens(self) -> dict[str, Any]:
        """The tokens after approval."""
        answer = await self.poll()
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def approved(self, http: httpx.AsyncClient, scope: str = "openid") -> None:
        """Have the user approve, by the API."""
        form = {"grant_type": "password", "username": self.rp.login_id, "password": PASSWORD, "scope": scope}
        token = (await self.rp.token(http, **form)).json()["access_token"]
        form = {"client_id": self.rp.client_id, "client_secret": self.rp.secret, "token": token}
        answer = await http.post("/oauth2/device/approve", data={**form, "user_code": self.user_code})
        assert answer.status_code == 200, answer.text
