"""Simple themes: published variables that become the custom properties of the pages' stylesheet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from identity.call import Document
from identity.domain.configuration import theme_images
from identity.domain.objects.data_files import load_yaml
from identity.errors import FieldError

_THEME: Final = load_yaml(__file__, "simple_themes.yaml")
_PROPERTIES: Final[Mapping[str, list[str]]] = _THEME["properties"]
DEFAULTS: Final[Mapping[str, str]] = _THEME["defaults"]
_PAIRS: Final[list[tuple[str, str]]] = _THEME["pairs"]

MINIMUM_CONTRAST: Final = 4.5
"""The contrast of text to its background (WCAG 2.2, criterion 1.4.3)."""

_COLOR: Final = re.compile(
    r"#([0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})|[a-zA-Z]{3,30}|(rgb|hsl)a?\([0-9., %/a-z]+\)"
)
_FONT: Final = re.compile(r"""[A-Za-z0-9 ,'"_-]+""")
_SIZE: Final = re.compile(r"(auto|cover|contain|[0-9]{1,4}(\.[0-9]{1,3})?(px|rem|em|%|vw|vh)?)")
_UNCHECKED: Final = frozenset({"backgroundImageURL", "favicons", "footerDisplay", "logoImageURL"})
_HEX: Final = re.compile(r"#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_SHORT: Final = 4


def problems(theme: Document) -> Iterator[FieldError]:
    """Return an error for each variable of a simple theme that is not of its kind: color, font or size."""
    if theme.get("type") != "simple":
        return
    for name, value in theme.get("variables", {}).items():
        if name not in _UNCHECKED and not _rule(name)(value):
            path = f"theme.variables.{name}"
            yield FieldError.invalid(path, "is not a CSS value of its kind")


def stylesheet(theme: Document) -> str:
    """Return the stylesheet of the variables; empty for an advanced theme.

    A simple theme has one set of colors, for light and dark.
    """
    if theme.get("type") != "simple":
        return ""
    variables = {**DEFAULTS, **theme.get("variables", {})}
    lines = [f"  color-scheme: {_scheme(variables)};", "  --shadow: none;"]
    for name, properties in _PROPERTIES.items():
        value = variables.get(name, "")
        if value and _rule(name)(value):
            lines += [f"  {each}: {value};" for each in properties]
    if (image := theme_images.images(theme).get("background")) is not None:
        lines.append(f'  --background-image: url("/theme/{theme["id"]}/{image.name}");')
    return "\n".join([":root {", *lines, "}", ""])


def contrast_problems(theme: Document) -> Iterator[str]:
    """Return a sentence for each text of a simple theme that has too little contrast to its background."""
    if theme.get("type") != "simple":
        return
    variables = {**DEFAULTS, **theme.get("variables", {})}
    for text, ground in _PAIRS:
        ratio = contrast(variables[text], variables[ground])
        if ratio is not None and ratio < MINIMUM_CONTRAST:
            yield f"The contrast of {text} to {ground} is {ratio:.1f}:1; readable text needs {MINIMUM_CONTRAST}:1."


def contrast(first: str, second: str) -> float | None:
    """Return the contrast ratio of two colors (WCAG 2.2); None unless both are hexadecimal."""
    luminances = [_luminance(color) for color in (first, second)]
    if None in luminances:
        return None
    dark, light = sorted(luminance for luminance in luminances if luminance is not None)
    return (light + 0.05) / (dark + 0.05)


def _rule(name: str) -> Callable[[str], object]:
    """Return the test of a variable's values."""
    if name in {"borderRadius", "logoImageSize", "backgroundSize"}:
        return lambda value: all(_SIZE.fullmatch(part) for part in value.split(" ")) and value
    return (_FONT if name in {"fontFamily", "monoFontFamily"} else _COLOR).fullmatch


def _scheme(variables: Mapping[str, str]) -> str:
    """Return whether browsers draw their own controls light or dark."""
    luminance = _luminance(variables["panelBackgroundColor"])
    return "dark" if luminance is not None and luminance < 0.18 else "light"


def _luminance(color: str) -> float | None:
    """Return the relative luminance of a hexadecimal color."""
    if not _HEX.fullmatch(color):
        return None
    digits = "".join(digit * 2 for digit in color[1:]) if len(color) == _SHORT else color[1:]
    red, green, blue = (_linear(int(digits[index : index + 2], 16) / 255) for index in (0, 2, 4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
