"""The pages under axe-core (WCAG 2.2), narrow and wide, light and dark; SCREENSHOTS adds screenshots of every page."""

from __future__ import annotations

import os
import re
import shutil
import urllib.parse
from pathlib import Path

import pytest

from identity import app
from identity.ids import new_id
from tests import npm, relying_party
from tests.api.test_forms import make_field
from tests.hosted import signing_up
from tests.hosted.chromium import Chromium
from tests.hosted.steps import mailing, newest
from tests.hosted.test_account_phone import messenger, number
from tests.hosted.test_registration_forms import EMAIL, FIRST_NAME, SECRET, offer_form
from tests.hosted.test_registration_verification import offer_steps
from tests.hosted.test_two_factor import shown_code
from tests.oauth2.devices import device_client
from tests.receiver import until
from tests.relying_party import PASSWORD, RelyingParty

__all__ = ["messenger"]

HERE = Path(__file__).resolve().parent / "axe"
ALL_LOOKS = [(width, scheme) for width in (360, 1280) for scheme in ("light", "dark")]
LOOKS = ALL_LOOKS if os.environ.get("SCREENSHOTS") else [(1280, "dark"), (360, "light")]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LOOK_RULES = [
    *("color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"),
    *("button-name", "link-name"),
]
"""The rules of colours, places, and of what only narrow windows show; the others examine wide windows."""

_WITHOUT_STICKY_BARS = """
for (const element of document.querySelectorAll("*"))
  if (getComputedStyle(element).position === "sticky")
    Object.assign(element.style, {position: "relative", inset: "auto"});
"""
"""Sticky bars cover other targets depending on the length of a page; a user scrolls."""

_EXAMINE = """
return axe.run(document, {runOnly: arguments[0], resultTypes: ["violations"], preload: false}).then((result) => [
  result.violations.map((v) => v.id + " " + v.nodes.map((n) => n.target + " " + n.failureSummary)),
  document.documentElement.scrollWidth,
]);
"""
"""Without the preloading of style sheets, which only an experimental rule needs."""

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="the pages are examined where npm is installed")


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of the examination."""
    return (npm.install(HERE) / "axe-core" / "axe.min.js").read_text("utf-8")


class Examiner:
    """Opens pages in the browser and examines them in every look."""

    def __init__(self, chromium: Chromium, base_url: str, axe: str) -> None:
        self.chromium = chromium
        self.base_url = base_url
        self._axe = axe
        self.problems: list[str] = []

    async def open(self, path: str, **query: str) -> None:
        await self.chromium.go(f"{self.base_url}{path}?{urllib.parse.urlencode(query)}")

    async def show(self, markup: str) -> None:
        """Show a page that another client received, with the static files of the service."""
        await self.chromium.go(f"{self.base_url}/")
        await self.chromium.run("document.open(); document.write(arguments[0]); document.close()", markup)

        async def is_styled() -> bool:
            return bool(await self.chromium.run("return document.styleSheets.length > 0"))

        await until(is_styled)

    async def examine(self, name: str) -> None:
        """Examine the page that is shown."""
        if await self.chromium.run(f"{_WITHOUT_STICKY_BARS}; return !window.axe"):
            await self.chromium.run(f"{self._axe}; window.axe = axe;")
            await self.chromium.add_script(self._axe)
        for width, scheme in LOOKS:
            await self.chromium.look(width, scheme)
            rules = LOOK_RULES if (width, scheme) == (360, "light") else TAGS
            found, needed = await self.chromium.run(_EXAMINE, rules)
            self.problems += [f"{name} {scheme} {width}: {problem}" for problem in found]
            if needed > width:
                self.problems.append(f"{name} {scheme} {width}: wider than the window")
            if folder := os.environ.get("SCREENSHOTS"):
                await self.chromium.screenshot(Path(folder) / f"{name}-{scheme}-{width}.png")

    async def submit(self, **values: str) -> None:
        """Fill in the form of the page, submit it, and wait for the next page."""
        await self.chromium.run("window.isEarlier = true")
        await self.chromium.run(
            "const form = document.querySelector('form'); form.noValidate = true;"
            "for (const [name, value] of Object.entries(arguments[0])) form.elements[name].value = value;"
            "form.querySelector('button[type=submit]').click()",
            values,
        )
        await self.shows_next()

    async def shows_next(self) -> None:
        async def is_next() -> bool:
            return bool(await self.chromium.run("return !window.isEarlier && document.readyState === 'complete'"))

        await until(is_next)


@pytest.fixture
async def examiner(chromium: Chromium, service: app.Service, axe: str) -> Examiner:
    return Examiner(chromium, service.base_url, axe)


@pytest.mark.requirement("self-service-28")
async def test_pages_of_a_login(examiner: Examiner, rp: RelyingParty, api) -> None:
    await signing_up.offer(rp, confirmPassword=True, birthDate={"enabled": True})
    template = {"defaultSubject": "a", "defaultTextTemplate": "b", "defaultHtmlTemplate": "c", "name": rp.client_id}
    made = (await api.post("/api/email/template", json={"emailTemplate": template})).json()["emailTemplate"]
    emails = {"forgotPasswordEmailTemplateId": made["id"], "defaultFromEmail": "service@example.com"}
    await rp.configure_tenant(emailConfiguration=emails)
    for path, name in (
        ("/oauth2/authorize", "login"),
        ("/oauth2/register", "register"),
        ("/password/forgot", "forgot"),
        ("/password/sent", "sent"),
        ("/password/complete", "changed"),
    ):
        await examiner.open(path, **rp.query())
        await examiner.examine(name)
    await examiner.open("/oauth2/register", **rp.query())
    await examiner.submit(**{"user.email": "no address", "user.password": "x"})
    await examiner.examine("register-errors")
    await examiner.open("/oauth2/authorize", **rp.query())
    await examiner.submit(loginId=rp.login_id, password="wrong")
    await examiner.examine("login-error")
    for path, name, query in (
        ("/oauth2/authorize", "error", {}),
        ("/nowhere", "not-found", {}),
        ("/", "index", {}),
        ("/oauth2/authorize", "login-arabic", rp.query(locale="ar")),
        ("/oauth2/authorize", "login-japanese", rp.query(locale="ja")),
    ):
        await examiner.open(path, **query)
        await examiner.examine(name)
    assert examiner.problems == []


@pytest.mark.requirement("self-service-28")
async def test_pages_of_an_account(examiner: Examiner, rp: RelyingParty) -> None:
    await rp.configure_tenant(userDeletePolicy={"selfService": {"enabled": True}})
    place = {"client_id": rp.client_id, "tenantId": rp.tenant["id"]}
    await examiner.open("/account", **place)
    await examiner.submit(loginId=rp.login_id, password=PASSWORD)
    for page in ("", "/edit", "/password", "/sessions", "/applications", "/links", "/data", "/delete", "/two-factor"):
        await examiner.open(f"/account{page}", **place)
        await examiner.examine(f"account{page.replace('/', '-')}")
    await examiner.open("/account/two-factor/enable", **place)
    await examiner.examine("account-two-factor-enable")
    await examiner.open("/account/password", **place)
    await examiner.submit(currentPassword="wrong", password="x", passwordConfirm="y")
    await examiner.examine("account-password-errors")
    assert examiner.problems == []


async def test_pages_between_credentials_and_application(examiner: Examiner, api, clock, http) -> None:
    rp = await relying_party.make(api, authenticationMethodsEnabled=True)
    await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": "Required"})
    await examiner.open("/oauth2/authorize", **rp.query())
    await examiner.submit(loginId=rp.login_id, password=PASSWORD)
    await examiner.examine("two-factor-enable")
    secret = await examiner.chromium.run("return document.getElementsByName('secretBase32Encoded')[0].value")
    await examiner.submit(code=shown_code(secret, clock))
    await examiner.examine("recovery-codes")
    saved = await examiner.chromium.run(
        "const link = document.querySelector('a[download]');"
        "return [document.querySelectorAll('.recovery code').length, link.download, link.protocol]"
    )
    assert saved == [10, "recovery-codes.txt", "blob:"]
    await examiner.chromium.forget()
    await examiner.open("/oauth2/authorize", **rp.query())
    await examiner.submit(loginId=rp.login_id, password=PASSWORD)
    await examiner.examine("two-factor")
    await examiner.chromium.click("button.link")
    focused = "const f = document.activeElement; return [f.id, f.inputMode]"
    assert await examiner.chromium.run(focused) == ["code", "text"]
    assert examiner.problems == []


async def test_pages_of_a_verification_consent_and_device(examiner: Examiner, api, http) -> None:
    gated = {"verifyEmail": True, "verificationStrategy": "FormField", "unverified": {"behavior": "Gated"}}
    rp = await relying_party.make(api, relationship="ThirdParty")
    async with mailing(rp, "verificationEmailTemplateId", "${verificationOneTimeCode}", **gated):
        body = {"user": {"email": f"{new_id()}@example.com", "password": PASSWORD}}
        user = (await api.post("/api/user", json=body, headers={"X-FusionAuth-TenantId": rp.tenant["id"]})).json()
        await examiner.open("/oauth2/authorize", **rp.query())
        await examiner.submit(loginId=user["user"]["email"], password=PASSWORD)
        await examiner.examine("verification-required")
        button = await examiner.chromium.run(
            "const button = document.querySelector('[data-wait-seconds]'); return [button.disabled, button.textContent]"
        )
        assert button[0] is True
        assert re.fullmatch(r"Send another message \(\d+\)", button[1])
    await rp.configure_tenant(emailConfiguration={"verifyEmail": False})
    await examiner.chromium.forget()
    await examiner.open("/oauth2/authorize", **rp.query(scope="openid email phone"))
    await examiner.submit(loginId=rp.login_id, password=PASSWORD)
    await examiner.examine("consent")
    party = await device_client(api)
    await examiner.open("/oauth2/device", client_id=party.client_id, tenantId=party.tenant["id"])
    await examiner.examine("device")
    assert examiner.problems == []


async def test_steps_of_a_registration_that_verify_login_ids(examiner: Examiner, rp: RelyingParty) -> None:
    await offer_steps(rp, [EMAIL, SECRET], {"type": "verifyEmail"}, [FIRST_NAME])
    async with mailing(rp, "verificationEmailTemplateId", "${verificationOneTimeCode}") as box:
        await examiner.open("/oauth2/register", **rp.query())
        email = signing_up.an_email()
        await examiner.submit(**{"user.email": email, "user.password": PASSWORD, "confirm.user.password": PASSWORD})
        await examiner.examine("register-verify")
        waits = "const button = document.querySelector('[data-wait-seconds]'); return button.disabled"
        assert await examiner.chromium.run(waits) is True
        await examiner.submit(oneTimeCode="wrong")
        await examiner.examine("register-verify-wrong")
        await examiner.submit(oneTimeCode=await newest(box))
        assert "3 / 3" in await examiner.chromium.text()
    assert examiner.problems == []


async def test_pages_of_a_new_phone_number(examiner: Examiner, rp: RelyingParty, messenger) -> None:
    place = {"client_id": rp.client_id, "tenantId": rp.tenant["id"]}
    await examiner.open("/account/phone", **place)
    await examiner.submit(loginId=rp.login_id, password=PASSWORD)
    await examiner.examine("account-phone")
    await examiner.submit(**{"user.phoneNumber": number(), "currentPassword": PASSWORD})
    await examiner.examine("account-phone-code")
    await examiner.submit(code="wrong")
    await examiner.examine("account-phone-wrong")
    assert examiner.problems == []


async def test_pages_of_a_registration_form(examiner: Examiner, rp: RelyingParty) -> None:
    fields = [
        await make_field(rp.api, control="radio", options=["red", "blue"], required=True, name=f"Color {new_id()}"),
        await make_field(rp.api, key="user.data.sports", control="checkbox", options=["Tennis", "Table tennis"]),
        await make_field(rp.api, key="user.data.news", control="checkbox", type="bool", required=True),
        await make_field(rp.api, key="user.data.about", control="textarea"),
        await make_field(rp.api, key="user.data.size", control="number", type="number"),
        await make_field(rp.api, key="user.data['plan']", control="select", options=["Free", "Team"]),
    ]
    await offer_form(rp, [EMAIL, SECRET], [field["id"] for field in fields])
    await examiner.open("/oauth2/register", **rp.query())
    await examiner.examine("register-step")
    email, script = signing_up.an_email(), "return document.querySelector('h1 ~ .quiet').textContent"
    await examiner.submit(**{"user.email": email, "user.password": PASSWORD, "confirm.user.password": PASSWORD})
    assert await examiner.chromium.run(script) == "Step 2 / 2"
    await examiner.examine("register-last-step")
    await examiner.submit(**{"user.data.size": "", "user.data.about": "I sail."})
    await examiner.examine("register-step-errors")
    wrong = "return [...document.querySelectorAll('p.wrong')].map((one) => one.id)"
    assert await examiner.chromium.run(wrong) == ["user.data.color-errors", "user.data.news-errors"]
    links = "[...document.querySelectorAll('#errors a')]"
    linked = f"return {links}.every((a) => document.getElementById(decodeURIComponent(a.hash.slice(1))))"
    assert await examiner.chromium.run(linked)
    assert examiner.problems == []
