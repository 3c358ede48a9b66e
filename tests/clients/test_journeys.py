"""The journeys of the official clients, unmodified: what their users do, with every method that the API publishes.

The suite runs the Python client, and the newest TypeScript client where node is installed. `make clients` runs all. The
environment variable JOURNEYS names a folder that receives a line of JSON per call, in a file for each client.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from identity import app
from tests import npm
from tests.authenticator import RELYING_PARTY
from tests.clients.journeys import configuration, logins, users
from tests.clients.journeys.clients import Answer, Client, Journey, PythonClient, started
from tests.conftest import MANAGER_KEY, SUPER_KEY, Build, ShiftedClock, checking_client
from tests.mailbox import Mailbox
from tests.mailbox import receiving as receiving_mail
from tests.receiver import receiving
from tests.relying_party import CHEAP, PKCE, REDIRECT_URI, RelyingParty

HERE = Path(__file__).resolve().parent / "journeys"
ALL = "ALL_CLIENTS" in os.environ
_has_node = shutil.which("node") is not None and shutil.which("npm") is not None

Open = Callable[[str], AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def python(base_url: str) -> AsyncIterator[Client]:
    yield PythonClient(base_url)


def typescript(release: str) -> Open:
    @asynccontextmanager
    async def opened(base_url: str) -> AsyncIterator[Client]:
        await asyncio.to_thread(npm.install, HERE / "node")
        async with started(["node", "client.mjs", f"typescript-client-{release}", base_url], HERE / "node") as client:
            yield client

    return opened


@asynccontextmanager
async def java(base_url: str) -> AsyncIterator[Client]:
    folder = HERE / "java"
    goals = ["compile", "dependency:copy-dependencies", "-DoutputDirectory=target/lib"]
    command = ["mvn", "-B", "-q", *goals]
    await asyncio.to_thread(subprocess.run, command, cwd=folder, check=True, capture_output=True)
    async with started(["java", "-cp", "target/classes:target/lib/*", "Journey", base_url], folder) as client:
        yield client


def opt_in(what: str, is_installed: bool) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not (ALL and is_installed), reason=f"{what} is called by `make clients` where it is installed"
    )


CLIENTS = [
    pytest.param(python, id="python"),
    pytest.param(
        typescript("1.69"), id="typescript-1.69",
        marks=pytest.mark.skipif(not _has_node, reason="the TypeScript client is called where node is installed"),
    ),
    pytest.param(typescript("1.60"), id="typescript-1.60", marks=opt_in("TypeScript 1.60", _has_node)),
    pytest.param(typescript("1.50"), id="typescript-1.50", marks=opt_in("TypeScript 1.50", _has_node)),
    pytest.param(java, id="java-1.53", marks=opt_in("Java", shutil.which("mvn") is not None)),
]  # fmt: skip

NOT_CALLED = {
    "tenantmanager": "not offered: the methods configure a separate administration program",
    "startidentityproviderlogin": "not offered: the types HYPR and SAMLv2, which start logins, are only stored",
    "retrievereindexstatus": "404 unless a reindex is running, as published",
}

REFUSED = {
    "introspectClientCredentialsAccessToken": "an entity must authenticate (RFC 7662 section 2.1); the client cannot",
    "introspectClientCredentialsAccessTokenWithRequest": "an entity must authenticate; the client cannot",
    "retrieveUserCodeUsingAPIKey": "the client sends no API key",
    "retrieveUserCodeUsingAPIKeyWithRequest": "the client sends no API key",
}
POST_FOR_PATCH = {"patchAPIKey": "the client sends POST in place of PATCH, and the id is taken"}
NOT_SENT = {"typescript-1.50": {"retrieveusercode"}, "typescript-1.60": {"retrieveusercode"}}
"""Methods of releases that cannot send them: a GET request with a body."""
REFUSED_TO = {"typescript-1.50": POST_FOR_PATCH, "java-1.53": POST_FOR_PATCH}


async def travel(call: Journey, service: app.Service, clock: ShiftedClock, box: Mailbox, url: str) -> None:
    """Go on the whole journey."""
    template = await configuration.templates(call)
    key_ids = await configuration.keys(call)
    template_ids = dict.fromkeys(
        (
            "forgotPasswordEmailTemplateId", "passwordlessEmailTemplateId", "verificationEmailTemplateId",
            "setPasswordEmailTemplateId",
        ),
        template["id"],
    )  # fmt: skip
    code = {
        "name": f"Code {key_ids['RS256']}",
        "defaultSubject": "Code",
        "defaultTextTemplate": "${code}",
        "defaultHtmlTemplate": "${code}",
    }
    code_template = (await call("createEmailTemplate", emailTemplateId=None, request={"emailTemplate": code}))[
        "emailTemplate"
    ]
    settings = {
        "emailConfiguration": box.configuration(**template_ids, verifyEmail=True, verificationStrategy="ClickableLink"),
        "familyConfiguration": {
            "enabled": True, "minimumOwnerAge": 18, "familyRequestEmailTemplateId": template["id"],
        },
        "multiFactorConfiguration": {
            "authenticator": {"enabled": True, "algorithm": "HmacSHA1", "codeLength": 6, "timeStep": 30},
            "email": {"enabled": True, "templateId": code_template["id"]},
            "sms": await configuration.messages(call, url),
        },
        "webAuthnConfiguration": {
            "enabled": True, "relyingPartyId": RELYING_PARTY, "bootstrapWorkflow": {"enabled": True},
        },
        "passwordEncryptionConfiguration": CHEAP,
        "eventConfiguration": {"events": {"user.create.complete": {"enabled": True, "transactionType": "None"}}},
    }  # fmt: skip
    tenant = await configuration.tenants(call, key_ids, settings)
    call.tenant_id = tenant["id"]
    populate = await configuration.lambdas(call)
    application = await configuration.applications(call, key_ids, populate["id"], REDIRECT_URI)
    await configuration.webhooks(call, url)
    await configuration.api_keys(call, MANAGER_KEY)
    await configuration.identity_providers(call, application["id"])
    for manage in (configuration.connectors, configuration.forms, configuration.access_lists):
        await manage(call)
    user = await users.users(call, application["id"])
    await users.many_users(call, application["id"])
    await users.groups(call, application, user["id"])
    await users.entities(call, user["id"])
    await users.consents(call, user["id"])
    await users.families(call)
    await users.actions(call)
    await logins.logins(call, user, application)
    await logins.passwordless(call, user, application["id"])
    await logins.passwords(call, application["id"])
    await logins.verifications(call)
    await logins.two_factor(call, application["id"], box, clock.now)
    await logins.passkeys(call, user, application["id"])
    await logins.oauth(call, user, application, browsing(service, tenant, application, user), beginning(service))
    await logins.external_users(call, application["id"], clock.now)
    await logins.reports(call, user, application["id"], clock.now())
    await logins.mail(call, template["id"], user)
    await configuration.system(call)
    await configuration.logs(call)


def browsing(service: app.Service, tenant: Answer, application: Answer, user: Answer) -> Callable[..., Awaitable[str]]:
    """Return a function that logs the user in with a browser and returns the authorization code."""

    async def code(*, pkce: bool = False) -> str:
        async with checking_client(service.base_url) as browser:
            party = RelyingParty(tenant, application, user, browser)
            return await party.code(browser, **(PKCE if pkce else {}))

    return code


def test_a_member_that_is_read_differently_is_found() -> None:
    written = {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": ["x", "y"], "e": True, "f": "kept"}
    read = {"a": {"b": [{"c": 1}, {"c": 3}]}, "d": ["y", "x"], "f": "kept", "g": "more"}
    assert configuration.differences(written, read) == ["a.b.1.c", "e"]


def beginning(service: app.Service) -> logins.Begin:
    """Return a function that begins a login on a device and returns the user code."""

    async def begin(client: dict[str, Any]) -> str:
        async with checking_client(service.base_url) as http:
            answer = await http.post("/oauth2/device_authorize", data={**client, "scope": "openid"})
            return str(answer.json()["user_code"])

    return begin


@pytest.fixture(scope="module")
async def service(build: Build, session_clock: ShiftedClock) -> AsyncIterator[app.Service]:
    """A service of its own: a journey makes the one provider of each type that an instance may have."""
    async with build(clock=session_clock) as running:
        yield running


@pytest.mark.parametrize("opened", CLIENTS)
async def test_official_client_succeeds_with_its_journey(service, clock, opened, request) -> None:
    name = request.node.callspec.id
    async with receiving_mail() as box, receiving() as receiver, opened(service.base_url) as client:
        call = Journey(client, await client.methods() - NOT_SENT.get(name, set()), SUPER_KEY)
        try:
            await travel(call, service, clock, box, receiver.url)
        finally:
            _report(name, call)
    expected = REFUSED | REFUSED_TO.get(name, {})
    unexpected = [refusal for refusal in call.refused if refusal.method not in expected]
    assert unexpected == [], "\n".join(map(str, unexpected))
    assert len(call.refused) <= len(call.calls) / 100
    assert call.differences == [], "an infrastructure tool would plan a change"
    missing = call.missing()
    assert {method for method in missing if not any(part in method for part in NOT_CALLED)} == set(), missing


def _report(name: str, call: Journey) -> None:
    """Write one line of JSON per call to the file named by JOURNEYS, if there is one."""
    if "JOURNEYS" not in os.environ:
        return
    lines = [
        json.dumps({"method": made.method, "status": made.outcome.status, "ok": made.outcome.is_successful})
        for made in call.calls
    ]
    (Path(os.environ["JOURNEYS"]) / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
