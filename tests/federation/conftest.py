"""Fixtures of federated logins: an application with a real or fake identity provider."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import fake_provider, relying_party, webhooks
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, Build, checking_client
from tests.fake_provider import FakeProvider
from tests.federation.hosted import Hosted
from tests.hosted.conftest import chromium, chromium_process
from tests.receiver import Receiver
from tests.relying_party import REDIRECT_URI, RelyingParty
from tests.subscriber import check_event

Document = dict[str, Any]

__all__ = ("chromium", "chromium_process")
"""Fixtures of the page tests."""

EVENTS = (
    *("user.create", "user.create.complete", "user.update", "user.update.complete"),
    *("user.registration.create", "user.registration.create.complete"),
    *("user.identity-provider.link", "user.identity-provider.unlink", "user.login.success", "user.login.new-device"),
    "user.login.failed",
)


@dataclasses.dataclass
class Scenario:
    """A tenant with an application, and a client that may do everything in it; `public` has no key."""

    tenant: Document
    application: Document
    api: httpx.AsyncClient
    public: httpx.AsyncClient
    provider: Document = dataclasses.field(default_factory=dict)

    async def add_provider(self, **members: Any) -> Document:
        """An identity provider that is enabled for the application, and is the scene's from now on."""
        configurations = {self.application["id"]: {"enabled": True, **members.pop("place", {})}}
        wanted = {"name": new_id(), "enabled": True, "applicationConfiguration": configurations, **members}
        answer = await self.api.post("/api/identity-provider", json={"identityProvider": wanted})
        assert answer.status_code == 200, answer.text
        self.provider = answer.json()["identityProvider"]
        return self.provider

    async def change(self, **members: Any) -> None:
        """Change the provider."""
        await self.patch(f"/api/identity-provider/{self.provider['id']}", {"identityProvider": members})

    async def configure(self, **members: Any) -> None:
        """Change the application."""
        await self.patch(f"/api/application/{self.application['id']}", {"application": members})

    async def configure_tenant(self, **members: Any) -> None:
        """Change the tenant."""
        await self.patch(f"/api/tenant/{self.tenant['id']}", {"tenant": members})

    async def patch(self, path: str, body: Document) -> None:
        kind = {"Content-Type": "application/merge-patch+json"}
        answer = await self.api.request("PATCH", path, json=body, headers=kind)
        assert answer.status_code == 200, answer.text

    async def log_in(self, data: Document | None = None, **members: Any) -> httpx.Response:
        """Log in through the provider, by default with a code."""
        usual = {"code": "the-code", "redirect_uri": REDIRECT_URI}
        body = {
            "applicationId": self.application["id"],
            "identityProviderId": self.provider["id"],
            "data": {**usual, **(data or {})},
            **members,
        }
        wanted = {name: value for name, value in body.items() if value is not None}
        return await self.public.post("/api/identity-provider/login", json=wanted)

    async def logged_in(self, status: int = 200, **members: Any) -> Document:
        """The answer to a login."""
        answer = await self.log_in(**members)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return dict(answer.json()) if answer.content else {}

    async def make_user(self, *, registered: bool = False, **members: Any) -> Document:
        """A user of the tenant."""
        application_id = self.application["id"] if registered else None
        return await relying_party.make_user(self.api, self.tenant["id"], application_id, **members)

    async def user(self, user_id: str) -> Document:
        return dict((await self.api.get(f"/api/user/{user_id}")).json()["user"])

    async def links(self, user_id: str) -> list[Document]:
        answer = await self.api.get("/api/identity-provider/link", params={"userId": user_id})
        return list(answer.json()["identityProviderLinks"])

    async def count_users(self) -> int:
        return int((await self.api.get("/api/user/search?queryString=*")).json()["total"])

    async def make_lambda(self, body: str, kind: str = "OpenIDReconcile") -> str:
        wanted = {"lambda": {"name": new_id(), "type": kind, "body": body}}
        answer = await self.api.post("/api/lambda", json=wanted)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["lambda"]["id"])

    async def make_template(self) -> str:
        texts = {"defaultSubject": "s", "defaultHtmlTemplate": "h", "defaultTextTemplate": "t"}
        answer = await self.api.post("/api/email/template", json={"emailTemplate": {"name": new_id(), **texts}})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["emailTemplate"]["id"])

    async def subscribe(self, receiver: Receiver, transaction_type: str = "None") -> None:
        """Send every event of a login to the receiver."""
        await webhooks.subscribe(self.api, self.tenant, receiver.url, EVENTS, transaction_type)


@pytest.fixture
async def tenant(api: httpx.AsyncClient) -> Document:
    """A new tenant that keeps passwords cheaply, because logins here are those of providers."""
    return await relying_party.make_tenant(api, passwordEncryptionConfiguration=relying_party.CHEAP)


@pytest.fixture
async def scenario(tenant: Document, tenant_api: httpx.AsyncClient, http: httpx.AsyncClient) -> Scenario:
    """A fresh tenant with an application."""
    body = {"application": {"name": new_id(), "roles": [{"name": "user", "isDefault": True}, {"name": "admin"}]}}
    application = (await tenant_api.post("/api/application", json=body)).json()["application"]
    return Scenario(tenant, application, tenant_api, http)


@pytest.fixture
async def fake(session_clock: Any) -> AsyncIterator[FakeProvider]:
    """A fake identity provider."""
    async with fake_provider.providing(session_clock) as provider:
        yield provider


@pytest.fixture
async def federated(scenario: Scenario, fake: FakeProvider) -> Scenario:
    """A scene with the fake provider, configured by its issuer."""
    oauth2 = {"issuer": fake.issuer, "client_id": fake.client_id, "client_secret": "the secret"}
    await scenario.add_provider(type="OpenIDConnect", oauth2=oauth2)
    fake.userinfo = {"sub": "person", "email": f"{new_id()}@example.com", "email_verified": True}
    return scenario


@pytest.fixture
def receiver(receiver: Receiver) -> Iterator[Receiver]:
    """The receiver of all tests, but whatever it got is as the schemas have it."""
    yield receiver
    for request in receiver.requests:
        check_event(request.event)


@pytest.fixture(scope="session")
async def other_service(build: Build, session_clock: Any) -> AsyncIterator[app.Service]:
    """A second running instance of the service, with stores of its own: the provider."""
    async with build(clock=session_clock) as running:
        yield running


@pytest.fixture
async def there(other_service: app.Service) -> AsyncIterator[RelyingParty]:
    """The application at the second instance that stands for us, with a user who knows a password."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with checking_client(other_service.base_url, headers=headers) as api:
        tenant = (await api.get(f"/api/tenant/{DEFAULT_TENANT}")).json()["tenant"]
        yield await relying_party.make(api, tenant=tenant)


@pytest.fixture
async def browser_there(other_service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that is at the provider."""
    async with checking_client(other_service.base_url) as client:
        yield client


@pytest.fixture
async def hosted(
    tenant: Document,
    api: httpx.AsyncClient,
    tenant_api: httpx.AsyncClient,
    http: httpx.AsyncClient,
    fake: FakeProvider,
    browser: httpx.AsyncClient,
) -> Hosted:
    """An application whose users may log in at the fake provider, by our pages."""
    rp = await relying_party.make(api, tenant=tenant)
    scenario = Scenario(tenant, rp.application, tenant_api, http)
    oauth2 = {"issuer": fake.issuer, "client_id": fake.client_id, "client_secret": "the secret"}
    await scenario.add_provider(type="OpenIDConnect", oauth2=oauth2)
    fake.userinfo = {"sub": "person", "email": f"{new_id()}@example.com", "email_verified": True}
    return Hosted(rp, scenario, fake, browser)
