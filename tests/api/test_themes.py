"""Themes: the default theme, copies, validation, and protection from deletion."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.configuration import themes
from identity.domain.objects import property_files
from identity.ids import new_id

Document = dict[str, Any]
DEFAULT = "75a068fd-e94b-451a-9aeb-3ddb9a3b5987"


def codes(answer: Any) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


async def make(api, **members: Any) -> Document:
    answer = await api.post("/api/theme", json={"theme": {"name": f"Theme {new_id()}", **members}})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["theme"])


@pytest.mark.requirement("core-18-templates-21", "core-18-templates-28")
async def test_full_cycle(api) -> None:
    made = await make(api, stylesheet=" body {} ", data={"a": 1}, templates={"index": "[#ftl] ", "nonsense": "x"})
    assert made["type"] == "advanced"
    assert made["stylesheet"] == " body {} "
    assert made["templates"] == {"index": "[#ftl] "}
    path = f"/api/theme/{made['id']}"
    assert (await api.get(path)).json() == {"theme": made}
    assert made in (await api.get("/api/theme")).json()["themes"]
    variables = {"alertFontColor": "#ff0000", "footerDisplay": True, "favicons": [{"href": "https://e.com/i.png"}]}
    body = {"theme": {"name": made["name"], "type": "simple", "variables": variables}}
    changed = (await api.put(path, json=body)).json()["theme"]
    assert (changed["type"], changed["variables"]) == ("simple", variables)
    assert "stylesheet" not in changed
    assert (changed["data"], changed["templates"]) == ({}, {})
    assert (await api.delete(path)).status_code == 200
    assert (await api.get(path)).status_code == 404


@pytest.mark.requirement("core-18-templates-21")
@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        ("application/json", {"theme": {"data": {"b": 2}}}, {"a": 1, "b": 2}),
        ("application/merge-patch+json", {"theme": {"data": {"a": None, "b": 2}}}, {"b": 2}),
        ("application/json-patch+json", [{"op": "replace", "path": "/theme/data/a", "value": 5}], {"a": 5}),
    ],
)
async def test_each_kind_of_patch(api, kind, patch, expected) -> None:
    made = await make(api, data={"a": 1}, stylesheet="a {}")
    answer = await api.patch(f"/api/theme/{made['id']}", json=patch, headers={"Content-Type": kind})
    assert answer.status_code == 200, answer.text
    assert answer.json()["theme"]["data"] == expected
    assert answer.json()["theme"]["stylesheet"] == "a {}"


@pytest.mark.requirement("core-18-templates-22")
async def test_copy_includes_all_but_name_and_id(api) -> None:
    source = await make(api, stylesheet="b {}", localizedMessages={"de": "login.submit=Anmelden"}, type="simple")
    theme_id = new_id()
    body = {"sourceThemeId": source["id"], "theme": {"name": f"Copy {new_id()}", "stylesheet": "not this"}}
    copy = (await api.post(f"/api/theme/{theme_id}", json=body)).json()["theme"]
    own = ("id", "name", "insertInstant", "lastUpdateInstant")
    assert copy["id"] == theme_id
    assert copy["name"] == body["theme"]["name"]
    assert {k: v for k, v in copy.items() if k not in own} == {k: v for k, v in source.items() if k not in own}


@pytest.mark.requirement("core-18-templates-22")
async def test_copy_requires_source_and_name(api) -> None:
    assert codes(await api.post("/api/theme", json={"sourceThemeId": new_id(), "theme": {"name": "x"}})) == {
        "[invalid]sourceThemeId"
    }
    assert codes(await api.post("/api/theme", json={"sourceThemeId": [1], "theme": {"name": "x"}})) == {
        "[invalid]sourceThemeId"
    }
    assert codes(await api.post("/api/theme", json={"sourceThemeId": DEFAULT})) == {"[blank]theme.name"}


@pytest.mark.requirement("core-13-21", "core-18-templates-23")
async def test_default_theme_exists_and_is_immutable(api) -> None:
    path = f"/api/theme/{DEFAULT}"
    theme = (await api.get(path)).json()["theme"]
    assert (theme["name"], theme["type"]) == ("FusionAuth", "advanced")
    assert "login.submit=Sign in\n" in theme["defaultMessages"]
    assert codes(await api.put(path, json={"theme": {"name": "Mine"}})) == {"[invalid]themeId"}
    assert codes(await api.patch(path, json={"theme": {"name": "Mine"}})) == {"[invalid]themeId"}
    assert codes(await api.delete(path)) == {"[invalid]themeId"}
    assert codes(await api.post(path, json={"theme": {"name": new_id()}})) == {"[duplicate]themeId"}
    assert (await api.get(path)).json()["theme"] == theme
    copy = await api.post("/api/theme", json={"sourceThemeId": DEFAULT, "theme": {"name": f"Theme {new_id()}"}})
    assert copy.json()["theme"]["defaultMessages"] == theme["defaultMessages"]


@pytest.mark.requirement("core-18-templates-21")
@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"name": None}, "[blank]theme.name"),
        ({"name": " "}, "[blank]theme.name"),
        ({"name": "x" * 192}, "[tooLong]theme.name"),
        ({"type": "plain"}, "[invalid]theme.type"),
        ({"stylesheet": [5]}, "[invalidJSON]"),
        ({"stylesheet": "x" * 262_145}, "[tooLong]theme.stylesheet"),
        ({"defaultMessages": "a=b\nnonsense\n"}, "[invalid]theme.defaultMessages"),
        ({"localizedMessages": {"de": "nonsense"}}, "[invalid]theme.localizedMessages.de"),
        ({"localizedMessages": {"not a locale": "a=b"}}, "[invalid]theme.localizedMessages"),
        ({"localizedMessages": {"de": [5]}}, "[invalidJSON]"),
        ({"templates": {"index": ["x"]}}, "[invalidJSON]"),
        ({"templates": {"index": "x" * 262_145}}, "[tooLong]theme.templates.index"),
        ({"templates": dict.fromkeys(("index", "oauth2Error", "helpers"), "x" * 200_000)}, "[tooLong]theme.templates"),
        ({"variables": {"footerDisplay": "yes"}}, "[invalidJSON]"),
    ],
)
async def test_invalid_themes_are_refused(api, members, code) -> None:
    answer = await api.post("/api/theme", json={"theme": {"name": f"Theme {new_id()}", **members}})
    assert code in codes(answer)


@pytest.mark.requirement("core-18-templates-21")
async def test_name_is_unique(api) -> None:
    made = await make(api)
    assert codes(await api.post("/api/theme", json={"theme": {"name": made["name"]}})) == {"[duplicate]theme.name"}


@pytest.mark.requirement("core-18-templates-24")
async def test_search_by_name_and_type(api) -> None:
    mark = new_id()
    simple = await make(api, name=f"{mark} b", type="simple")
    advanced = await make(api, name=f"{mark} a")
    found = (await api.get("/api/theme/search", params={"name": mark})).json()
    assert (found["total"], [one["id"] for one in found["themes"]]) == (2, [simple["id"], advanced["id"]])
    body = {"search": {"name": mark, "type": "simple"}}
    assert [one["id"] for one in (await api.post("/api/theme/search", json=body)).json()["themes"]] == [simple["id"]]
    body = {"search": {"name": mark, "orderBy": "name ASC", "numberOfResults": 1}}
    found = (await api.post("/api/theme/search", json=body)).json()
    assert (found["total"], [one["id"] for one in found["themes"]]) == (2, [advanced["id"]])
    assert codes(await api.post("/api/theme/search", json={"search": {"orderBy": "type"}})) == {
        "[invalid]search.orderBy"
    }


@pytest.mark.requirement("core-18-templates-25")
async def test_referenced_themes_must_exist_and_cannot_be_deleted(api, tenant, tenant_api) -> None:
    made = await make(api)
    body = {"tenant": {"themeId": new_id()}}
    assert codes(await api.patch(f"/api/tenant/{tenant['id']}", json=body)) == {"[invalid]tenant.themeId"}
    assert codes(await tenant_api.post("/api/application", json={"application": {"themeId": new_id()}})) == {
        "[blank]application.name",
        "[invalid]application.themeId",
    }
    body = {"application": {"name": "App", "themeId": made["id"]}}
    application = (await tenant_api.post("/api/application", json=body)).json()["application"]
    assert application["themeId"] == made["id"]
    assert codes(await api.delete(f"/api/theme/{made['id']}")) == {"[inUse]themeId"}
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": {"themeId": made["id"]}})).status_code == 200
    assert (await tenant_api.delete(f"/api/application/{application['id']}?hardDelete=true")).status_code == 200
    assert codes(await api.delete(f"/api/theme/{made['id']}")) == {"[inUse]themeId"}
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": {"themeId": DEFAULT}})).status_code == 200
    assert (await api.delete(f"/api/theme/{made['id']}")).status_code == 200


@pytest.mark.requirement("core-18-templates-27")
def test_messages_use_properties_file_syntax() -> None:
    text = "# c\n! c\n\na = b\nc: d\n  e=f \\\n   g\nh\\=i=j\n[K]=\\u00e4\\n\\t.\nlast=x\\"
    assert property_files.read(text) == {
        "a": "b",
        "c": "d",
        "e": "f g",
        "h=i": "j",
        "[K]": "ä\n\t.",
        "last": "x",
    }


@pytest.mark.requirement("core-18-templates-27")
@pytest.mark.parametrize(
    ("locales", "language", "text"),
    [
        ((), "en", "default"),
        (("fr",), "fr", "default"),
        (("de",), "de", "deutsch"),
        (("de-CH",), "de", "deutsch"),
        (("fr", "de"), "fr", "default"),
        (("sv", "de"), "de", "deutsch"),
        (("pt_BR",), "pt-BR", "brasileiro"),
        (("pt",), "pt-BR", "brasileiro"),
        (("en-GB", "de"), "en", "default"),
    ],
)
def test_first_available_language_is_used(locales, language, text) -> None:
    theme = {"defaultMessages": "a=default\nb=b", "localizedMessages": {"de": "a=deutsch", "pt_BR": "a=brasileiro"}}
    assert themes.resolve_texts(theme, locales) == (language, {"a": text, "b": "b"})


@pytest.mark.parametrize("line", ["a" + " " * 500_000 + "x", " " * 500_000, "a\\" * 200_000, "ab\\\n" * 200_000])
def test_long_lines_without_key_are_parsed_in_linear_time(line) -> None:
    assert property_files.read(f"a=b\n{line}")["a"] == "b"
