"""The images of a theme, which its variables contain as `data:` URLs (RFC 2397): logo, background and icon.

Only uploaded images are shown: the Content-Security-Policy of the pages allows no other host.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Final

from identity.call import Document
from identity.errors import FieldError
from identity.ids import fingerprint

MAXIMUM_BYTES: Final = 262_144
"""The maximum size of one image."""

_SIGNATURES: Final[Mapping[str, tuple[str, tuple[bytes, ...]]]] = {
    "image/gif": ("gif", (b"GIF87a", b"GIF89a")),
    "image/jpeg": ("jpg", (b"\xff\xd8\xff",)),
    "image/png": ("png", (b"\x89PNG\r\n\x1a\n",)),
    "image/vnd.microsoft.icon": ("ico", (b"\x00\x00\x01\x00",)),
    "image/webp": ("webp", (b"RIFF",)),
}
"""Media type -> suffix and the first bytes of a file. Scalable images can contain scripts and are not accepted."""

_ALIASES: Final = {"image/x-icon": "image/vnd.microsoft.icon", "image/jpg": "image/jpeg"}
_KINDS: Final = (("logo", "logoImageURL"), ("background", "backgroundImageURL"))


@dataclasses.dataclass(frozen=True, slots=True)
class ThemeImage:
    """An image: the name under which it is served, its media type and its bytes."""

    name: str
    media_type: str
    content: bytes = dataclasses.field(repr=False)


def urls(theme: Document) -> dict[str, tuple[str, str]]:
    """Return kind (`logo`, `background`, `favicon`) -> path of the member and URL, for those that the theme sets."""
    if theme.get("type") != "simple":
        return {}
    variables = theme.get("variables", {})
    found = {kind: (f"theme.variables.{name}", variables[name]) for kind, name in _KINDS if variables.get(name)}
    icons = [icon["href"] for icon in variables.get("favicons", ()) if icon.get("href")]
    return found | ({"favicon": ("theme.variables.favicons[0].href", icons[0])} if icons else {})


def images(theme: Document) -> dict[str, ThemeImage]:
    """Return the uploaded images of a theme by kind."""
    decoded = {kind: _decode(kind, url) for kind, (_, url) in urls(theme).items()}
    return {kind: image for kind, image in decoded.items() if image is not None}


def problems(theme: Document) -> Iterator[FieldError]:
    """Return an error for each image that is too large, or not of the type that it states."""
    for kind, (path, url) in urls(theme).items():
        if is_uploaded(url) and _decode(kind, url) is None:
            message = f"The [{path}] must be a GIF, ICO, JPEG, PNG or WebP image of at most {MAXIMUM_BYTES} bytes."
            yield FieldError.of("invalid", path, message)


def is_uploaded(url: str) -> bool:
    """Whether a URL contains the image itself."""
    return url.startswith("data:")


@functools.lru_cache(maxsize=64)
def _decode(kind: str, url: str) -> ThemeImage | None:
    """Return the image of a `data:` URL; None for any other URL and for content of another type."""
    header, _, encoded = url.partition(",")
    scheme, _, stated = header.partition(":")
    media_type, _, encoding = stated.partition(";")
    media_type = _ALIASES.get(media_type.lower(), media_type.lower())
    if scheme != "data" or encoding != "base64" or media_type not in _SIGNATURES:
        return None
    try:
        content = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return None
    suffix, signatures = _SIGNATURES[media_type]
    if len(content) > MAXIMUM_BYTES or not content.startswith(signatures):
        return None
    return ThemeImage(f"{kind}-{fingerprint(url)[:16]}.{suffix}", media_type, content)
