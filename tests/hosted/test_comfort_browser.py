"""What the pages' script adds for users, in a real browser."""

from __future__ import annotations

import httpx
import pytest

from tests.hosted import signing_up
from tests.hosted.chromium import Chromium
from tests.receiver import until
from tests.relying_party import RelyingParty

WORST_FIRST = (
    ("password", 0),
    ("P@ssw0rd", 0),
    ("abcdefgh", 0),
    ("aaaaaaaaaaaa", 0),
    ("qwertyuiop", 0),
    ("lovelace1", 0),
    ("1987-05-12", 1),
    ("12.5.1987", 1),
    ("monkey1987", 1),
    ("tr7Kq2", 2),
    ("fjd83kqz", 3),
    ("correct horse battery staple", 4),
    ("8gT!2kpQz0rW", 4),
)


async def becomes(chromium: Chromium, script: str) -> None:
    """Wait until a script returns something true."""

    async def is_true() -> bool:
        return bool(await chromium.run(script))

    await until(is_true)


async def open_login(chromium: Chromium, rp: RelyingParty) -> None:
    request = httpx.Request("GET", f"{rp.api.base_url}/oauth2/authorize", params=rp.query())
    await chromium.go(str(request.url))
    await chromium.find(".reveal")


async def test_password_can_be_shown_and_is_hidden_when_the_form_is_sent(chromium, rp):
    await open_login(chromium, rp)
    await chromium.type("#password", "wrong")
    await chromium.click(".reveal")
    assert await chromium.run("return [password.type, document.querySelector('.reveal').textContent]") == [
        "text",
        "Hide",
    ]
    await chromium.run(
        "password.form.addEventListener('submit', (e) => { e.preventDefault(); document.title = password.type; })"
    )
    await chromium.type("#loginId", "ada")
    await chromium.click("button[type=submit]")
    await becomes(chromium, "return document.title === 'password'")


async def test_caps_lock_is_pointed_out_at_a_password(chromium, rp):
    await open_login(chromium, rp)
    for state, text in (("true", "Caps Lock is on."), ("false", "")):
        await chromium.run(
            f"password.dispatchEvent(new KeyboardEvent('keyup', {{modifierCapsLock: {state}, bubbles: true}}))"
        )
        assert await chromium.run("return document.querySelector('.caps').textContent") == text


async def test_strength_of_a_new_password_is_shown_as_it_is_typed(chromium, rp):
    await signing_up.offer(rp)
    request = httpx.Request("GET", f"{rp.api.base_url}/oauth2/register", params=rp.query())
    await chromium.go(str(request.url))
    await chromium.find(".strength")
    assert await chromium.run("return document.querySelectorAll('.strength').length") == 1
    await chromium.type("[id='user.email']", "ada.lovelace@example.com")
    await chromium.type("[id='user.password']", "lovelace1")
    assert "Very weak" in await chromium.text()
    await chromium.type("[id='user.password']", "-8gT!2kpQz0rW")
    assert "Strong" in await chromium.text()


async def test_estimate_of_strength_knows_words_rows_dates_and_the_users_own_names(chromium, rp):
    await open_login(chromium, rp)
    scores = await chromium.run(
        "const path = document.querySelector('script[type=module]').src;"
        "return import(path).then((module) => arguments[0].map((text) => module.score(text, ['Lovelace'])))",
        [password for password, _ in WORST_FIRST],
    )
    assert dict(zip([password for password, _ in WORST_FIRST], scores, strict=True)) == dict(WORST_FIRST)


@pytest.mark.parametrize("length", [0, 1, 72, 300])
async def test_estimate_of_strength_is_fast_for_any_length(chromium, rp, length):
    await open_login(chromium, rp)
    milliseconds = await chromium.run(
        "const path = document.querySelector('script[type=module]').src; return import(path).then((module) => {"
        "const begin = performance.now(); module.score('aB3-'.repeat(100).slice(0, arguments[0])) ;"
        "return performance.now() - begin; })",
        length,
    )
    assert milliseconds < 10_000  # an estimate that is not linear takes minutes


async def test_pages_stay_small(rp, browser):
    shown = await rp.authorize(browser)
    paths = [part.split('"')[0] for part in shown.text.split('"/static/')[1:]]
    total = len(shown.content)
    for path in paths:
        total += len((await browser.get(f"/static/{path}")).content)
    assert total < 60_000


async def test_logout_continues_when_the_frames_have_loaded(chromium, rp):
    await rp.configure(logoutURL=f"{rp.api.base_url}/static/none")
    await chromium.go(f"{rp.api.base_url}/oauth2/logout?client_id={rp.client_id}")
    await becomes(chromium, "return location.pathname === '/static/none'")


async def test_form_post_response_is_submitted_by_itself(chromium, rp):
    await rp.configure(authorizedRedirectURLs=[f"{rp.api.base_url}/nowhere"])
    query = rp.query(redirect_uri=f"{rp.api.base_url}/nowhere", response_mode="form_post", prompt="none")
    await chromium.go(str(httpx.Request("GET", f"{rp.api.base_url}/oauth2/authorize", params=query).url))
    await becomes(chromium, "return location.pathname === '/nowhere'")
