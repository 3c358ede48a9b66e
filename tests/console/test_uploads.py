"""Forms with files: how they are parsed, and the images of themes."""

from __future__ import annotations

import base64

import httpx
import pytest

from identity.ids import new_id
from identity.web.console.uploads import MultipartForm
from tests.console.administrator import Browser, Page

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FIELD = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
FILE = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\nContent-Type: a/b\r\n\r\n\r\n--\r\n'
END = b"--x--\r\n"


def parse(body: bytes, step: int) -> MultipartForm:
    form = MultipartForm("multipart/form-data; boundary=x")
    for start in range(0, len(body), step):
        form.write(body[start : start + step])
    form.finish()
    return form


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_form_is_read_however_it_is_cut(step: int) -> None:
    form = parse(FIELD + FILE + FIELD + END, step)
    assert form.fields == {"a": ["1", "1"]}
    assert form.files["f"].media_type == "a/b"
    assert form.files["f"].content.read() == b"\r\n--"
    form.close()


@pytest.mark.parametrize(
    "body",
    [b"", FIELD, b"--x\r\n", b"--y--\r\n", FIELD + FILE + FILE + END, FIELD.replace(b"1", b"1" * 2_000_000) + END],
    ids=["empty", "unfinished", "cut", "other boundary", "one name twice", "large field"],
)
def test_malformed_form_has_no_fields(body: bytes) -> None:
    form = parse(body, 65_536)
    assert form.fields == {}
    assert form.files == {}


async def send(browser: Browser, path: str, files: dict[str, bytes], **fields: object) -> httpx.Response:
    given = Page(await browser.open(path)).form("")["fields"]
    data = {name: value for name, value in {**given, **fields}.items() if name not in files}
    parts = {name: (f"{name}.png", content, "image/png") for name, content in files.items()}
    return await browser.http.post(path, data=data, files=parts)


@pytest.mark.requirement("console-24")
async def test_theme_gets_its_colors_and_images_from_fields(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    shown = Page(await roles["developer"].open("/admin/themes/new?kind=simple"))
    types = {given.get("name"): given.get("type") for tag, given in shown.tags if tag == "input"}
    assert types["theme.variables.fontColor"] == types["theme.variables.fontFamily"] == "text"
    name, logo, icon = new_id(), "theme.variables.logoImageURL", "theme.variables.favicons"
    colors = {"theme.name": name, "theme.variables.fontColor": "#123456"}
    made = await send(roles["developer"], "/admin/themes/new?kind=simple", {logo: PIXEL, icon: PIXEL}, **colors)
    assert made.status_code == 303, made.text
    path = made.headers["Location"].partition("?")[0]
    theme_id = path.rpartition("/")[2]
    variables = (await api.get(f"/api/theme/{theme_id}")).json()["theme"]["variables"]
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    assert variables == {
        "favicons": [{"href": url, "rel": "icon"}], "fontColor": "#123456", "footerDisplay": True, "logoImageURL": url,
    }  # fmt: skip
    for shown in (path, f"{path}/edit"):
        assert url not in (await roles["developer"].open(shown)).text
    kept = {"theme.variables.fontColor": "", "theme.variables.footerDisplay": []}
    assert (await send(roles["developer"], f"{path}/edit", {}, **kept, **{icon: "removed"})).status_code == 303
    variables = (await api.get(f"/api/theme/{theme_id}")).json()["theme"]["variables"]
    assert variables == {"footerDisplay": False, "logoImageURL": url}
    refused = await send(roles["developer"], f"{path}/edit", {logo: b"<svg/>"})
    assert refused.status_code == 400
    assert "of at most 262144 bytes" in Page(refused).text


async def test_preview_shows_images_that_are_not_stored_yet(roles: dict[str, Browser]) -> None:
    token = await roles["developer"].csrf_token()
    files = {"theme.variables.logoImageURL": ("logo.png", PIXEL, "image/png")}
    data = {"csrf_token": token, "theme.name": "x"}
    shown = await roles["developer"].http.post("/admin/themes/preview?kind=simple", data=data, files=files)
    assert f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}" in shown.text
