"""Looks: what a tenant's or application's theme changes about a page, in the language of whoever looks at it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from http.cookies import Morsel

from markupsafe import Markup, escape

from identity.call import Document
from identity.domain.configuration import page_texts
from identity.domain.configuration import themes as rules
from identity.ids import fingerprint
from identity.operations.configuration import themes
from identity.web.base_handlers import BaseHandler

LOCALE_COOKIE = "fusionauth.locale"

_LOCALE_SECONDS = 31_536_000
_LOCALE = re.compile(r"[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8}){0,3}")
_MAXIMUM_LOCALE = 40
_MAXIMUM_LOCALES = 20


class PageTheme:
    """The texts of a page, its language and the theme's stylesheet, if any."""

    def __init__(self, theme: Document | None = None, locales: tuple[str, ...] = ()) -> None:
        language, own = ("en", {}) if theme is None else rules.resolve_texts(theme, locales)
        self._texts: Mapping[str, str] = own
        self.language = language
        self.stylesheet = None if theme is None else stylesheet_path(theme)

    def __getitem__(self, key: str) -> str:
        return self._texts.get(key) or page_texts.TEXTS[key]

    def find(self, key: str, otherwise: str) -> str:
        """The text of a key that need not be there, such as the code of an error; else what stands in its place."""
        return self._texts.get(key) or page_texts.TEXTS.get(key) or otherwise

    def scope_text(self, kind: str, scope: str, application: Document) -> str | None:
        """What a scope means: its `scope-message` or `scope-detail` of application, tenant, theme or by default."""
        keys = page_texts.scope_keys(kind, scope, application["id"], application["tenantId"])
        own = next((self._texts[key] for key in keys if self._texts.get(key)), None)
        return own or page_texts.TEXTS.get(keys[-1])

    def fill(self, key: str, value: str, *, strong: bool = False) -> Markup:
        """The text with a value in its place; both are escaped."""
        shown = Markup("<strong>{}</strong>").format(value) if strong else escape(value)
        return Markup(str(escape(self[key])).replace("{0}", str(shown)))  # noqa: S704 (both halves are escaped above)


DEFAULT_THEME = PageTheme()


async def load(
    handler: BaseHandler,
    tenant: Document,
    application: Document | None = None,
    given: Mapping[str, str] | None = None,
) -> PageTheme:
    """The look of a page of a tenant, and of an application where it is about one.

    The language is that of the parameter `locale`, else of `ui_locales`, else the one of the browser's last request
    that named one, else one that the browser asks for.
    """
    theme = await themes.find_effective(handler.services, tenant, application)
    if theme is None:
        return DEFAULT_THEME
    accepted = handler.request.headers.get("Accept-Language", "")[:500]
    remembered = str(handler.received_cookie(LOCALE_COOKIE) or "")[:_MAXIMUM_LOCALE]
    return PageTheme(theme, (*_named(given or {}), *_locales(remembered), *_locales(accepted)))


def locale_cookies(handler: BaseHandler, given: Mapping[str, str]) -> list[Morsel[str]]:
    """The cookie that remembers the language of a request which names one, for those that name none."""
    named = next((name for name in _named(given) if _LOCALE.fullmatch(name)), None)
    if named is None or named == handler.received_cookie(LOCALE_COOKIE):
        return []
    return [handler.new_cookie(LOCALE_COOKIE, named, _LOCALE_SECONDS)]


def stylesheet_path(theme: Document) -> str | None:
    """Where the stylesheet of a theme is served: the path changes with the content, so that it may be kept for ever."""
    sheet = theme.get("stylesheet", "")
    return f"/theme/{theme['id']}/style-{_hash(sheet)}.css" if sheet.strip() else None


@functools.lru_cache(maxsize=64)
def _hash(sheet: str) -> str:
    return fingerprint(sheet)[:16]


def _named(given: Mapping[str, str]) -> tuple[str, ...]:
    """The locales that a request names, the most wanted first."""
    return _locales(given.get("locale") or given.get("ui_locales", ""))


def _locales(text: str) -> tuple[str, ...]:
    """The locales of a list, the most wanted first: `de-CH,de;q=0.9,en;q=0.8` (RFC 9110 section 12.5.4), or `de en`."""
    wanted = []
    for item in text.replace(" ", ",").split(",")[:_MAXIMUM_LOCALES]:
        name, _, weight = item.partition(";q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            quality = 0.0
        if name and quality > 0:
            wanted.append((-quality, name))
    return tuple(name for _, name in sorted(wanted, key=lambda one: one[0]))
