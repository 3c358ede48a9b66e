"""Render the hosted pages from compiled templates, each with a strict Content-Security-Policy."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from http.cookies import Morsel
from pathlib import Path
from typing import Any, Final

import jinja2
import structlog
from markupsafe import Markup

from identity.domain.captcha.captchas import Widget
from identity.domain.configuration import page_templates
from identity.domain.configuration.page_templates import PageEnvironment
from identity.domain.messaging.template_budget import RenderError
from identity.domain.providers.identity_providers import NO_OPTIONS, ProviderOptions
from identity.operations.authorization import first_party_redirects
from identity.web import page_files
from identity.web.endpoint import Reply
from identity.web.hosted.page_theme import PageTheme

Cookies = Sequence[Morsel[str]]

_log = structlog.get_logger(__name__)

_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
_DESCRIBED = Markup(' aria-describedby="login-error"')
_INVALID = Markup(' aria-invalid="true"')
_WITHOUT_LANGUAGES = frozenset({"error.html", "form_post.html", "leave.html", "logout.html"})
"""Pages without a language switch: those that continue without the user, and the error page, which repeats nothing of
the request, not even in a URL."""
FAULT_ADVICE: Final = "error.fault"
_FAULT: Final = 500
_STATUS_TEXTS: Final = {404: "notFound", 405: "methodNotAllowed"}


@dataclasses.dataclass(frozen=True, slots=True)
class LoginForm:
    """The login page; `hidden` is the whole authorization request, so that the page needs no server-side state."""

    application_name: str
    action: str
    hidden: tuple[tuple[str, str], ...]
    redirect_uri: str
    login_id: str = ""
    remember_device: bool = False
    message: str = ""
    is_invalid: bool = False
    asks_password: bool = True
    offer: ProviderOptions = NO_OPTIONS
    forgot: str = ""
    register: str = ""
    passwordless: str = ""
    captcha: Widget | None = None
    passkey: str = ""
    """The URL that passkeys are submitted to; empty if the page does not offer them."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScopeChoice:
    """A scope on the consent page: the name of its field, its texts, and whether it is selected."""

    field: str
    message: str
    detail: str
    is_checked: bool = False


@functools.cache
def _templates() -> jinja2.Environment:
    environment = page_files.environment(_TEMPLATES, strips_blocks=False)
    environment.globals["asset"] = functools.partial(page_files.path, "hosted")
    return environment


def login(form: LoginForm, theme: PageTheme, cookies: Cookies = ()) -> Reply:
    """The login page."""
    images = tuple(sorted({_origin(button.image_url) for button in form.offer.buttons if button.image_url}))
    targets = _form_targets(form.redirect_uri, theme)
    policy = _policy(form_action=targets, image=images, connects=bool(form.passkey), captcha=form.captcha)
    values = {field.name: getattr(form, field.name) for field in dataclasses.fields(form)}
    values |= problem_values(form.message, is_invalid=form.is_invalid)
    return _page("login.html", policy, values, theme, cookies)


def not_registered(application_name: str, other: str, theme: PageTheme) -> Reply:
    """The page for a user without a registration; `other` is the URL at which another user can log in."""
    return _page("not_registered.html", _policy(), {"application_name": application_name, "other": other}, theme)


def target_name(redirect_uri: str) -> str:
    """Return the name of the application to which a redirect URI leads: its host, or the scheme of a native one."""
    return urllib.parse.urlsplit(redirect_uri).hostname or _origin(redirect_uri)


def notice(key: str, theme: PageTheme, links: Iterable[tuple[str, str]] = ()) -> Reply:
    """Return a page with the texts `<key>.title`, `.heading` and `.text`; the first link is a button."""
    return form("notice.html", {**_notice_texts(key, theme), "links": list(links)}, theme)


def form(
    template: str,
    values: Mapping[str, Any],
    theme: PageTheme,
    *,
    redirect_uri: str | None = None,
    cookies: Cookies = (),
) -> Reply:
    """Return a page with a form; `redirect_uri` is where its response may lead."""
    form_action = ("'self'",) if redirect_uri is None else _form_targets(redirect_uri, theme)
    policy = _policy(form_action=form_action, captcha=values.get("captcha"))
    return _page(template, policy, values, theme, cookies)


def error(body: Mapping[str, Any], status: int, advice: str, theme: PageTheme) -> Reply:
    """Return the error page, which includes the OAuth error JSON for the application's developer.

    `advice` is the key of a page text.
    """
    values = {
        "description": body["error_description"],
        "oauth_json": json.dumps(body, indent=2),
        "advice": FAULT_ADVICE if status >= _FAULT else advice,
        "is_unchanged": status < _FAULT,
    }
    return dataclasses.replace(_page("error.html", _policy(), values, theme), status=status)


def status_page(status: int, theme: PageTheme) -> Reply:
    """Return the page for a status without further information, such as 404 for an unknown path."""
    key = _STATUS_TEXTS.get(status, "serverError")
    values = {**_notice_texts(key, theme), "links": [(theme["status.start"], "/")]}
    page = _page("notice.html", _policy(), values, theme)
    return dataclasses.replace(page, status=status)


def form_post(
    action: str,
    parameters: Iterable[tuple[str, str]],
    theme: PageTheme,
    cookies: Cookies = (),
    *,
    text: str = "formPost.text",
) -> Reply:
    """Return a page that posts parameters to a URL, such as an authorization response (Form Post Response Mode).

    `text` is the key of the page text. Its form has no fields that a user fills in, and the receiver may redirect on to
    any https URL.
    """
    policy = _policy(form_action=("https:", _origin(action)))
    values = {"action": action, "parameters": list(parameters), "text": text}
    return _page("form_post.html", policy, values, theme, cookies=cookies)


def leave(target: str, theme: PageTheme, cookies: Cookies = ()) -> Reply:
    """Return a page that continues at a URL, which ends the redirects after a form: form-action no longer applies."""
    return _page("leave.html", _policy(), {"target": target}, theme, cookies=cookies)


def logout(target: str, logout_urls: Iterable[str], theme: PageTheme, cookies: Cookies = ()) -> Reply:
    """Return a page that loads all logout URLs, then redirects (OpenID Connect Front-Channel Logout)."""
    urls = list(logout_urls)
    policy = _policy(frame=tuple(sorted({_origin(url) for url in urls})))
    values = {"target": target, "logout_urls": urls}
    return _page("logout.html", policy, values, theme, cookies=cookies)


def confirm_logout(
    action: str, hidden: Iterable[tuple[str, str]], theme: PageTheme, target: str, cookies: Cookies = ()
) -> Reply:
    """Return a page that asks the user to confirm a logout that another site requested."""
    policy = _policy(form_action=_form_targets(target, theme))
    return _page("confirm_logout.html", policy, {"action": action, "hidden": list(hidden)}, theme, cookies=cookies)


def logged_out(theme: PageTheme, cookies: Cookies = ()) -> Reply:
    """Return the page after a logout without a redirect URI."""
    return _page("logged_out.html", _policy(), {}, theme, cookies=cookies)


def index(theme: PageTheme, *, is_logged_in: bool) -> Reply:
    """The landing page."""
    return _page("index.html", _policy(), {"is_logged_in": is_logged_in}, theme)


def _page(template: str, policy: str, values: Mapping[str, Any], theme: PageTheme, cookies: Cookies = ()) -> Reply:
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }
    hidden = values.get("hidden")
    languages = theme.language_choices(hidden) if template not in _WITHOUT_LANGUAGES else []
    given = {"captcha": None, **values, "texts": theme, "languages": languages}
    page = _render_themed(template, given, theme) if theme.templates else None
    body = page if page is not None else _templates().get_template(template).render(given)
    return Reply(body.encode(), headers=headers, cookies=[*cookies, *theme.cookies])


def _notice_texts(key: str, theme: PageTheme) -> dict[str, str]:
    return {name: theme[f"{key}.{name}"] for name in ("title", "heading", "text")}


def problem_values(message: str, *, is_invalid: bool) -> dict[str, Any]:
    """Return the values of the template of the fields of a login, which refer to the message about a failure."""
    described = (_DESCRIBED if message else Markup("")) + (_INVALID if is_invalid else Markup(""))
    return {"message": message, "is_invalid": is_invalid, "described": described}


def _form_targets(url: str, theme: PageTheme) -> tuple[str, ...]:
    """Return the `form-action` sources of a form whose response may lead to a URL: our own pages and its origin.

    Browsers apply form-action to every redirect after a form, so that the sources include those to which the URL
    redirects: the application behind the hosted backend, and the sources that the operator configured.
    """
    if url.startswith("/"):
        return ("'self'",)
    is_backend = urllib.parse.urlsplit(url).path == first_party_redirects.HOSTED_BACKEND_PATH
    behind = [_origin(each) for each in theme.redirect_uris] if is_backend else []
    named = (each for each in behind if each != "'none'")
    return tuple(dict.fromkeys(("'self'", _origin(url), *named, *theme.form_action_sources)))


def _policy(
    form_action: tuple[str, ...] = ("'none'",),
    frame: tuple[str, ...] = (),
    image: tuple[str, ...] = (),
    *,
    connects: bool = False,
    captcha: Widget | None = None,
) -> str:
    """Return a Content-Security-Policy that allows our static files, the named frames and images, and a CAPTCHA.

    `connects`: the script sends requests to our own origin.
    """
    directives = {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": "'self'",
        "img-src": " ".join(("'self'", *image)),
        "frame-src": " ".join(frame) or "'none'",
        **({"connect-src": "'self'"} if connects else {}),
        "form-action": " ".join(form_action),
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    for name, sources in ({} if captcha is None else captcha.provider.sources).items():
        own = directives.get(name, "'none'")
        directives[name] = " ".join((*(() if own == "'none'" else (own,)), *sources))
    return "; ".join(f"{name} {value}" for name, value in directives.items())


def _origin(url: str) -> str:
    """Return the origin of a URL as a policy source; for the URL of a native application its scheme."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        return f"{parts.scheme}:"
    if not _HOST.fullmatch(parts.netloc):
        return "'none'"
    return f"{parts.scheme}://{parts.netloc}"


def _render_themed(template: str, values: Mapping[str, Any], theme: PageTheme) -> str | None:
    """Return a page of the theme; None if its templates do not concern the page, or fail."""
    sources = theme.templates
    if "base" not in sources and template.removesuffix(".html") not in sources:
        return None
    try:
        return page_templates.render(_themed_environment(tuple(sorted(sources.items()))), template, values)
    except RenderError as error:
        _log.warning("page template failed", theme_id=theme.theme_id, page=template, reason=error.message)
        return None


@functools.lru_cache(maxsize=16)
def _themed_environment(sources: tuple[tuple[str, str], ...]) -> PageEnvironment:
    builtin = jinja2.FileSystemLoader(_TEMPLATES)
    own = jinja2.DictLoader({f"{name}.html": text for name, text in sources})
    environment = PageEnvironment(
        jinja2.ChoiceLoader([own, jinja2.PrefixLoader({page_templates.BUILTIN: builtin}), builtin])
    )
    environment.globals["asset"] = functools.partial(page_files.path, "hosted")
    return environment
