"""The theme of a page: the texts in the user's language, and the stylesheet of the tenant's or application's theme."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from http.cookies import Morsel
from typing import Final

from markupsafe import Markup, escape

from identity.call import Document
from identity.domain.configuration import page_texts
from identity.domain.configuration import themes as theme_rules
from identity.ids import fingerprint
from identity.operations.configuration import themes
from identity.web.base_handlers import BaseHandler

LOCALE_COOKIE: Final = "fusionauth.locale"

_LOCALE_SECONDS: Final = 31_536_000
_LOCALE: Final = re.compile(r"[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8}){0,3}")
_MAXIMUM_LOCALE: Final = 40
_MAXIMUM_LOCALES: Final = 20
_MAXIMUM_HEADER: Final = 500


class PageTheme:
    """The texts, the language and the stylesheet of a page; without a theme the built-in English texts."""

    def __init__(self, theme: Document | None = None, locales: tuple[str, ...] = ()) -> None:
        self.language, texts = ("en", {}) if theme is None else theme_rules.resolve_texts(theme, locales)
        self._texts: Mapping[str, str] = texts
        self.stylesheet = None if theme is None else stylesheet_path(theme)

    def __getitem__(self, key: str) -> str:
        return self._texts.get(key) or page_texts.TEXTS[key]

    def message(self, key: str) -> str:
        """Return the text of a key; empty for an empty key."""
        return self[key] if key else ""

    def find(self, key: str, default: str) -> str:
        """Return the text of a key, such as an error code, if there is one, else `default`."""
        return self._texts.get(key) or page_texts.TEXTS.get(key) or default

    def scope_text(self, kind: str, scope: str, application: Document) -> str | None:
        """Return the `scope-message` or `scope-detail` of a scope: of the application, the tenant or the theme."""
        keys = page_texts.scope_keys(kind, scope, application["id"], application["tenantId"])
        own = next((self._texts[key] for key in keys if self._texts.get(key)), None)
        return own or page_texts.TEXTS.get(keys[-1])

    def fill(self, key: str, value: str, *, strong: bool = False) -> Markup:
        """Return the text with a value in place of `{0}`; both are escaped."""
        markup = Markup("<strong>{}</strong>").format(value) if strong else escape(value)
        return Markup(str(escape(self[key])).replace("{0}", str(markup)))  # noqa: S704 (both are escaped above)


DEFAULT_THEME: Final = PageTheme()


async def load(
    handler: BaseHandler,
    tenant: Document,
    application: Document | None = None,
    given: Mapping[str, str] | None = None,
) -> PageTheme:
    """Return the theme of a page of a tenant, or of one of its applications.

    The language is that of the parameter `locale`, else `ui_locales`, else of the browser's locale cookie, else of its
    Accept-Language header.
    """
    theme = await themes.find_effective(handler.services, tenant, application)
    if theme is None:
        return DEFAULT_THEME
    accepted = handler.request.headers.get("Accept-Language", "")[:_MAXIMUM_HEADER]
    remembered = str(handler.received_cookie(LOCALE_COOKIE) or "")[:_MAXIMUM_LOCALE]
    return PageTheme(theme, (*_requested(given or {}), *_locales(remembered), *_locales(accepted)))


def locale_cookies(handler: BaseHandler, given: Mapping[str, str]) -> list[Morsel[str]]:
    """Return the cookie that remembers the language of a request for requests without one."""
    locale = next((name for name in _requested(given) if _LOCALE.fullmatch(name)), None)
    if locale is None or locale == handler.received_cookie(LOCALE_COOKIE):
        return []
    return [handler.new_cookie(LOCALE_COOKIE, locale, _LOCALE_SECONDS)]


def stylesheet_path(theme: Document) -> str | None:
    """Return the path of a theme's stylesheet; it changes with the content, so that browsers can cache it forever."""
    stylesheet = theme.get("stylesheet", "")
    return f"/theme/{theme['id']}/style-{_hash(stylesheet)}.css" if stylesheet.strip() else None


@functools.lru_cache(maxsize=64)
def _hash(stylesheet: str) -> str:
    return fingerprint(stylesheet)[:16]


def _requested(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the locales of a request, preferred first."""
    return _locales(given.get("locale") or given.get("ui_locales", ""))


def _locales(text: str) -> tuple[str, ...]:
    """Return the locales of a list by weight: `de-CH,de;q=0.9,en;q=0.8` (RFC 9110 section 12.5.4), or `de en`."""
    weighted = []
    for item in text.replace(" ", ",").split(",")[:_MAXIMUM_LOCALES]:
        name, _, weight = item.partition(";q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            quality = 0.0
        if name and quality > 0:
            weighted.append((-quality, name))
    return tuple(name for _, name in sorted(weighted, key=lambda pair: pair[0]))
