"""The theme of a page: the texts in the user's language, and the stylesheet of the tenant's or application's theme."""

from __future__ import annotations

import dataclasses
import functools
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from http.cookies import Morsel
from typing import Any, Final

import orjson
from markupsafe import Markup, escape

from identity.call import Document
from identity.domain.configuration import page_templates, page_texts, theme_images
from identity.domain.configuration import themes as theme_rules
from identity.domain.objects import catalogues
from identity.ids import fingerprint
from identity.operations.configuration import themes
from identity.web.base_handlers import BaseHandler

LOCALE: Final = "locale"
LOCALE_COOKIE: Final = "fusionauth.locale"

_SCRIPT_TEXTS: Final = ("capsLock", "copied", "copy", "download", "hide", "show")
_NOT_REPEATED: Final = frozenset({"csrf_token", "session"})
"""Hidden fields that are bound to one form."""

_LOCALE_SECONDS: Final = 31_536_000
_LOCALE: Final = re.compile(r"[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8}){0,3}")
_PLACEHOLDER: Final = re.compile(r"\{(\d)\}")
_MAXIMUM_LOCALE: Final = 40
_MAXIMUM_LOCALES: Final = 20
_MAXIMUM_HEADER: Final = 500
_MAXIMUM_FIELDS: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class LanguageChoice:
    """A language of the language switch: its tag, its name in itself, and the URL of the page in it."""

    tag: str
    name: str
    url: str


class PageTheme:
    """The texts, the language and the stylesheet of a page; without a theme the built-in texts.

    `query` are the parameters with which the page can be requested again, None if it cannot be. `cookies` remember the
    language that the request asked for. `redirect_uris` are those of the application, `form_action_sources` the
    configured sources of policies.
    """

    def __init__(
        self,
        theme: Document | None = None,
        locales: tuple[str, ...] = (),
        *,
        query: tuple[tuple[str, str], ...] | None = None,
        cookies: Sequence[Morsel[str]] = (),
        redirect_uris: Sequence[str] = (),
        form_action_sources: Sequence[str] = (),
    ) -> None:
        self.language, self._own = theme_rules.resolve_texts(theme or {}, locales)
        self._catalogue = catalogues.texts(catalogues.find_language(self.language) or catalogues.SOURCE_LANGUAGE)
        self._languages = theme_rules.languages(theme)
        self.direction = catalogues.direction(self.language)
        self.stylesheet = None if theme is None else stylesheet_path(theme)
        self.theme_id = "" if theme is None else str(theme["id"])
        self.templates = page_templates.of_theme(theme)
        self._images = theme_images.images(theme or {})
        self.has_footer = theme is None or theme.get("variables", {}).get("footerDisplay", True)
        self.query, self.cookies = query, tuple(cookies)
        self.redirect_uris, self.form_action_sources = tuple(redirect_uris), tuple(form_action_sources)

    def __getitem__(self, key: str) -> str:
        return self._own.get(key) or self._catalogue.get(key) or page_texts.TEXTS[key]

    def image_path(self, kind: str) -> str:
        """Return the path of the `logo` or `favicon` of the theme; empty if it has none."""
        image = self._images.get(kind)
        return f"/theme/{self.theme_id}/{image.name}" if image is not None else ""

    def message(self, key: str) -> str:
        """Return the text of a key; empty for an empty key."""
        return self[key] if key else ""

    def find(self, key: str, default: str) -> str:
        """Return the text of a key, such as an error code, if there is one, else `default`."""
        return self[key] if key in self._own or key in page_texts.TEXTS else default

    def scope_text(self, kind: str, scope: str, application: Document) -> str | None:
        """Return the `scope-message` or `scope-detail` of a scope: of the application, the tenant or the theme."""
        keys = page_texts.scope_keys(kind, scope, application["id"], application["tenantId"])
        own = next((self._own[key] for key in keys if self._own.get(key)), None)
        return own or self.find(keys[-1], "") or None

    def fill(self, key: str, *values: object, strong: bool = False) -> Markup:
        """Return the text with values in place of `{0}`, `{1}` and so on; all are escaped.

        In a right-to-left language isolates keep the order of a value that is written left to right.
        """

        def filled(placeholder: re.Match[str]) -> str:
            index = int(placeholder[1])
            if index >= len(values):
                return placeholder[0]
            isolated = str(values[index]) if self.direction == "ltr" else f"\u2068{values[index]}\u2069"
            return str(Markup("<strong>{}</strong>").format(isolated) if strong else escape(isolated))

        return Markup(_PLACEHOLDER.sub(filled, str(escape(self[key]))))  # noqa: S704 (all are escaped above)

    def script_texts(self) -> str:
        """Return the texts of the pages' script as JSON."""
        texts: dict[str, Any] = {name: self[f"script.{name}"] for name in _SCRIPT_TEXTS}
        texts["strength"] = [self[f"script.strength.{score}"] for score in range(5)]
        return orjson.dumps(texts).decode()

    def language_name(self) -> str:
        """Return the name of the language of the page."""
        return catalogues.name(self.language)

    def language_choices(self, hidden: Iterable[tuple[str, str]] | None = None) -> list[LanguageChoice]:
        """Return the languages of the page; none if the page cannot be requested again.

        `hidden` are the hidden fields of the form on a page that answers a POST.
        """
        query = self.query
        if query is None and hidden is not None:
            query = tuple((name, value) for name, value in hidden if name not in _NOT_REPEATED)
        if query is None:
            return []
        kept = [(name, value) for name, value in query if name != LOCALE]
        return [
            LanguageChoice(tag, catalogues.name(tag), "?" + urllib.parse.urlencode([*kept, (LOCALE, tag)]))
            for tag in self._languages
        ]


async def load(
    handler: BaseHandler,
    tenant: Document,
    application: Document | None = None,
    given: Mapping[str, str] | None = None,
    *,
    earlier: Mapping[str, str] | None = None,
    user: Document | None = None,
) -> PageTheme:
    """Return the theme of a page of a tenant, or of one of its applications.

    The language is that of the parameter `locale`, else `ui_locales`, else of the browser's locale cookie, else of the
    authorization request `earlier` in this login, else of the user's `preferredLanguages`, else of the Accept-Language
    header.
    """
    theme = await themes.find_effective(handler.services, tenant, application)
    return of_request(handler, given, theme=theme, earlier=earlier, user=user, application=application)


def of_request(
    handler: BaseHandler,
    given: Mapping[str, str] | None = None,
    *,
    theme: Document | None = None,
    earlier: Mapping[str, str] | None = None,
    user: Document | None = None,
    application: Document | None = None,
) -> PageTheme:
    """Return the built-in theme, or a loaded one, in the language of a request."""
    query = urllib.parse.parse_qsl(handler.request.query, max_num_fields=_MAXIMUM_FIELDS)
    requested = (*_locales(dict(query).get(LOCALE, "")), *_requested(given or {}))
    remembered = str(handler.received_cookie(LOCALE_COOKIE) or "")[:_MAXIMUM_LOCALE]
    preferred = [] if user is None else user.get("preferredLanguages") or []
    accepted = handler.request.headers.get("Accept-Language", "")[:_MAXIMUM_HEADER]
    locales = (*requested, *_locales(remembered), *_requested(earlier or {}), *preferred, *_locales(accepted))
    return PageTheme(
        theme,
        locales,
        query=tuple(query) if handler.request.method != "POST" else None,
        cookies=_locale_cookies(handler, requested),
        redirect_uris=() if application is None else application["oauthConfiguration"]["authorizedRedirectURLs"],
        form_action_sources=handler.services.config.server.form_action_sources,
    )


def _locale_cookies(handler: BaseHandler, requested: Sequence[str]) -> list[Morsel[str]]:
    """Return the cookie that remembers the language of a request for requests without one."""
    locale = next((name for name in requested if _LOCALE.fullmatch(name)), None)
    if locale is None or locale == handler.received_cookie(LOCALE_COOKIE):
        return []
    return [handler.new_cookie(LOCALE_COOKIE, locale, _LOCALE_SECONDS)]


def stylesheet_path(theme: Document) -> str | None:
    """Return the path of a theme's stylesheet; it changes with the content, so that browsers can cache it forever."""
    stylesheet = theme_rules.stylesheet(theme)
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
