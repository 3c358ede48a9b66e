"""Set-up for tests of forgotten and changed passwords: a tenant with a mail server, users, and ids of their mails."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from identity import app
from identity.ids import fingerprint, new_id
from identity.operations.passwords import change_password_ids
from identity.store.redis import Redis
from tests import internals, relying_party
from tests.conftest import SUPER_KEY, checking_client
from tests.mailbox import Mailbox, receiving
from tests.relying_party import RelyingParty

NEW_PASSWORD = "another horse battery"
_ID = re.compile(r"/password/change/([A-Za-z0-9_-]+)")
MAIL = "Go to https://example.com/password/change/${changePasswordId}?back=${state.back!'nowhere'}"


@dataclasses.dataclass
class PasswordReset:
    """A relying party whose tenant sends mails, with a client that has an API key and an anonymous one."""

    service: app.Service
    rp: RelyingParty
    key: httpx.AsyncClient
    anonymous: httpx.AsyncClient
    mailbox: Mailbox

    @property
    def tenant_id(self) -> str:
        return str(self.rp.tenant["id"])

    @property
    def redis(self) -> Redis:
        """The store of the ids."""
        return internals.redis(self.service)

    def key_of(self, change_id: str) -> str:
        """The Redis key of an id."""
        return self.redis.key("ticket", change_password_ids.KIND, f"{{{fingerprint(change_id)}}}")

    async def user(self, **members: Any) -> dict[str, Any]:
        """Create a user of the application with the default password."""
        return await relying_party.make_user(self.rp.api, self.tenant_id, self.rp.client_id, **members)

    async def change_id(self, **members: Any) -> str:
        """Request an id for the user without a mail."""
        body = {"loginId": self.rp.login_id, "sendForgotPasswordEmail": False, **members}
        answer = await self.key.post("/api/user/forgot-password", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["changePasswordId"])

    async def mailed_id(self, **members: Any) -> str:
        """Request a mail without an API key; returns the id in the mail."""
        count = len(self.mailbox.mails)
        body = {"loginId": self.rp.login_id, **members}
        answer = await self.anonymous.post("/api/user/forgot-password", json=body)
        assert (answer.status_code, answer.content) == (200, b""), answer.text
        mails = await self.mailbox.wait_for(count + 1)
        return id_in(mails[count].part("plain"))

    async def change(self, change_id: str, password: str = NEW_PASSWORD, **members: Any) -> httpx.Response:
        """Change a password by an id, without an API key."""
        body = {"password": password, **members}
        return await self.anonymous.post(f"/api/user/change-password/{change_id}", json=body)

    async def log_in(self, password: str = relying_party.PASSWORD, **members: Any) -> httpx.Response:
        """Log in the user; None removes a member of the request."""
        wanted = {"loginId": self.rp.login_id, "password": password, "applicationId": self.rp.client_id, **members}
        body = {name: value for name, value in wanted.items() if value is not None}
        return await self.key.post("/api/login", json=body)

    async def log_in_once(self, value: str, **members: Any) -> httpx.Response:
        """Log in with a one-time password."""
        body = {"oneTimePassword": value, "applicationId": self.rp.client_id, **members}
        return await self.key.post("/api/login", json=body)

    async def stored(self, user_id: str | None = None) -> dict[str, Any]:
        """Retrieve a user."""
        answer = await self.key.get(f"/api/user/{user_id or self.rp.user['id']}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["user"])


@asynccontextmanager
async def password_reset(service: app.Service, api: httpx.AsyncClient, **members: Any) -> AsyncIterator[PasswordReset]:
    """A tenant with a mail server and the templates; `members` are further members of the tenant."""
    rp = await relying_party.make(api)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    async with (
        receiving() as box,
        checking_client(service.base_url, headers=headers | {"Authorization": SUPER_KEY}) as key,
        checking_client(service.base_url, headers=headers) as anonymous,
    ):
        mail = {
            **box.configuration(),
            "forgotPasswordEmailTemplateId": await make_template(api, MAIL),
            "setPasswordEmailTemplateId": await make_template(api, MAIL),
        }
        await rp.configure_tenant(emailConfiguration=mail, **members)
        logins = {"generateRefreshTokens": True, "allowTokenRefresh": True}
        await rp.patch(f"/api/application/{rp.client_id}", {"application": {"loginConfiguration": logins}})
        yield PasswordReset(service, rp, key, anonymous, box)


async def make_template(api: httpx.AsyncClient, text: str) -> str:
    """Create an email template with this text; returns its id."""
    template = {
        "name": f"Mail {new_id()}", "defaultSubject": "Mail", "defaultHtmlTemplate": text, "defaultTextTemplate": text,
    }  # fmt: skip
    answer = await api.post("/api/email/template", json={"emailTemplate": template})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["emailTemplate"]["id"])


def id_in(text: str) -> str:
    """Return the id in the link of a mail."""
    found = _ID.search(text)
    assert found is not None, text
    return found[1]


def codes(answer: httpx.Response) -> dict[str, list[str]]:
    """Return the error kinds by field; general errors have the empty name."""
    assert answer.status_code == 400, (answer.status_code, answer.text)
    body = answer.json()
    found = {
        path: [entry["code"].partition("]")[0][1:] for entry in entries]
        for path, entries in body.get("fieldErrors", {}).items()
    }
    general = [entry["code"] for entry in body.get("generalErrors", [])]
    return {**found, "": general} if general else found
