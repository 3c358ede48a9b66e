"""Simple themes: which values are accepted, the stylesheet they make, their images and the contrast of their texts."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from identity.domain.configuration import simple_themes, theme_images, themes

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
THEME_ID = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a00aa"


def data_url(content: bytes = PNG, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def theme(**variables: Any) -> dict[str, Any]:
    return {"id": THEME_ID, "type": "simple", "variables": variables}


@pytest.mark.parametrize(
    ("name", "value", "is_valid"),
    [
        ("fontColor", "#123456", True),
        ("fontColor", "#abc", True),
        ("fontColor", "rebeccapurple", True),
        ("fontColor", "rgb(1 2 3 / 50%)", True),
        ("fontColor", "red; } body { display: none", False),
        ("fontColor", "url(https://evil.example.com)", False),
        ("fontColor", "", False),
        ("fontFamily", "'Open Sans', sans-serif", True),
        ("fontFamily", "x; background: url(x)", False),
        ("fontFamily", "</style><script>", False),
        ("borderRadius", "0", True),
        ("borderRadius", "12px", True),
        ("borderRadius", "12px; color: red", False),
        ("logoImageSize", "80%", True),
        ("backgroundSize", "100% auto", True),
        ("backgroundSize", "cover", True),
        ("backgroundSize", "expression(1)", False),
    ],
)
def test_values_that_are_more_than_a_value_are_refused(name: str, value: str, is_valid: bool) -> None:
    found = [error.path for error in simple_themes.problems(theme(**{name: value}))]
    assert found == ([] if is_valid else [f"theme.variables.{name}"])
    assert (value in simple_themes.stylesheet(theme(**{name: value}))) is (is_valid or not value)


def test_variables_of_an_advanced_theme_have_no_effect() -> None:
    advanced = {**theme(fontColor="}"), "type": "advanced"}
    assert list(simple_themes.problems(advanced)) == []
    assert simple_themes.stylesheet(advanced) == ""


@pytest.mark.parametrize(
    ("url", "is_image"),
    [
        (data_url(), True),
        (data_url(b"\xff\xd8\xff\xe0", "image/jpeg"), True),
        (data_url(b"<svg onload='alert(1)'/>", "image/svg+xml"), False),
        (data_url(b"<script>alert(1)</script>"), False),
        (data_url(PNG, "text/html"), False),
        (data_url(PNG + b"\0" * theme_images.MAXIMUM_BYTES), False),
        ("data:image/png;base64,%%%", False),
        ("data:image/png,abc", False),
    ],
)
def test_only_images_of_their_stated_type_and_limited_size_are_accepted(url: str, is_image: bool) -> None:
    found = theme(logoImageURL=url)
    assert [error.path for error in theme_images.problems(found)] == (
        [] if is_image else ["theme.variables.logoImageURL"]
    )
    assert ("logo" in theme_images.images(found)) is is_image


def test_background_is_part_of_the_stylesheet_under_a_path_of_ours() -> None:
    found = theme(backgroundImageURL=data_url())
    name = theme_images.images(found)["background"].name
    assert f'url("/theme/{THEME_ID}/{name}")' in simple_themes.stylesheet(found)
    assert "url(" not in simple_themes.stylesheet(theme(backgroundImageURL="https://example.com/x.png"))


@pytest.mark.parametrize(
    ("first", "second", "ratio"),
    [("#000000", "#ffffff", 21.0), ("#fff", "#ffffff", 1.0), ("#777777", "#ffffff", 4.48), ("red", "#ffffff", None)],
)
def test_contrast_is_that_of_the_guidelines(first: str, second: str, ratio: float | None) -> None:
    found = simple_themes.contrast(first, second)
    assert found == (None if ratio is None else pytest.approx(ratio, abs=0.01))


def test_built_in_colors_have_enough_contrast() -> None:
    assert themes.notices(theme()) == []


def test_notices_name_what_is_not_shown_and_what_is_hard_to_read() -> None:
    found = {
        **theme(fontColor="#bbbbbb", logoImageURL="https://example.com/logo.png"),
        "templates": {"oauth2Authorize": "[#ftl]"},
    }
    notices = "\n".join(themes.notices(found))
    assert "[oauth2Authorize] is not rendered" in notices
    assert "[theme.variables.logoImageURL] is not shown" in notices
    assert "fontColor to panelBackgroundColor is 1.9:1" in notices
