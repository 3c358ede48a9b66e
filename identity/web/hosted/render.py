"""The hosted pages: templates compiled once, one stylesheet under the hash of its content, and a strict policy each."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import secrets
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from http.cookies import Morsel
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from identity.domain.providers.identity_providers import NO_OPTIONS, ProviderOptions
from identity.ids import fingerprint
from identity.operations.authorization import hosted_backend_callback
from identity.web.endpoint import Reply
from identity.web.hosted.page_theme import DEFAULT_THEME, PageTheme

Cookies = Sequence[Morsel[str]]

_HERE = Path(__file__).resolve().parent
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
_DESCRIBED = Markup(' aria-describedby="login-error"')
_INVALID = Markup(' aria-invalid="true"')


@dataclasses.dataclass(frozen=True, slots=True)
class LoginForm:
    """What the login page shows: `hidden` is the whole authorization request, so that nothing depends on a cookie."""

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


@dataclasses.dataclass(frozen=True, slots=True)
class LinkForm:
    """What the page of a pending link shows; `account` is what the provider calls the account, if anything."""

    application_name: str
    provider_name: str
    account: str
    action: str
    hidden: tuple[tuple[str, str], ...]
    redirect_uri: str
    login_id: str = ""
    message: str = ""
    is_invalid: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ScopeChoice:
    """One scope on the consent page: the name of its field, what it means, more of that, and whether it is ticked."""

    field: str
    message: str
    detail: str
    is_checked: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ConsentForm:
    """What the consent page shows; `login_id` says who is asked."""

    application_name: str
    action: str
    hidden: tuple[tuple[str, str], ...]
    redirect_uri: str
    login_id: str
    required: tuple[ScopeChoice, ...] = ()
    optional: tuple[ScopeChoice, ...] = ()
    unknown: tuple[ScopeChoice, ...] = ()
    message: str = ""


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        auto_reload=False,
        cache_size=-1,
    )
    environment.globals["stylesheet"] = stylesheet_path()
    return environment


@functools.cache
def stylesheet() -> bytes:
    """The stylesheet of every page."""
    return (_HERE / "static" / "style.css").read_bytes()


@functools.cache
def stylesheet_path() -> str:
    """Where the stylesheet is served: the path changes with the content, so that it may be kept for ever."""
    return f"/static/style-{fingerprint(stylesheet().decode())[:16]}.css"


def login(form: LoginForm, look: PageTheme, cookies: Cookies = ()) -> Reply:
    """The login page."""
    images = tuple(sorted({_origin(button.image_url) for button in form.offer.buttons if button.image_url}))
    plain = (_origin(url) for url in form.offer.plain_urls)
    policy = _policy(form_action=(*_leads_to(form), *plain), image=images)
    return _page("login.html", policy, _fields(form), look, cookies)


def link(form: LinkForm, look: PageTheme, cookies: Cookies = ()) -> Reply:
    """The page of a pending link."""
    return _page("start_idp_link.html", _policy(form_action=_leads_to(form)), _fields(form), look, cookies)


def not_registered(application_name: str, other: str, look: PageTheme) -> Reply:
    """The page for a user whom an application does not know; `other` is where another one can log in."""
    return _page("not_registered.html", _policy(), {"application_name": application_name, "other": other}, look)


def consent(form: ConsentForm, look: PageTheme, cookies: Cookies = ()) -> Reply:
    """The consent page."""
    fields = {field.name: getattr(form, field.name) for field in dataclasses.fields(form)}
    origin = _origin(form.redirect_uri)
    policy = _policy(form_action=_places(form.redirect_uri))
    target = urllib.parse.urlsplit(form.redirect_uri).hostname or origin
    return _page("consent.html", policy, fields | {"target": target}, look, cookies)


def form(
    template: str,
    values: Mapping[str, Any],
    look: PageTheme,
    *,
    redirect_uri: str | None = None,
    cookies: Cookies = (),
    nonce: str | None = None,
) -> Reply:
    """A page with a form of ours; `redirect_uri` is where its answer may lead, `nonce` that of its script if any."""
    geoip = ("'self'",) if redirect_uri is None else _places(redirect_uri)
    return _page(template, _policy(nonce, form_action=geoip), values, look, cookies)


def error(body: Mapping[str, Any], status: int, advice: str) -> Reply:
    """The error page, which also prints the OAuth error JSON for the application's developer."""
    values = {"description": body["error_description"], "oauth_json": json.dumps(body, indent=2), "advice": advice}
    return dataclasses.replace(_page("error.html", _policy(), values, DEFAULT_THEME), status=status)


def form_post(
    action: str,
    parameters: Iterable[tuple[str, str]],
    look: PageTheme,
    cookies: Cookies = (),
    *,
    text: str = "formPost.text",
) -> Reply:
    """A page that posts an authorization response to its redirect URI (OAuth 2.0 Form Post Response Mode).

    Or something else to somewhere else; then `text` is the key of what it says meanwhile.
    """
    nonce = secrets.token_urlsafe(16)
    policy = _policy(script=nonce, form_action=("https:", _origin(action)))
    values = {"action": action, "parameters": list(parameters), "nonce": nonce, "text": text}
    return _page("form_post.html", policy, values, look, cookies=cookies)


def logout(target: str, logout_urls: Iterable[str], look: PageTheme, cookies: Cookies = ()) -> Reply:
    """A page that loads the logout URL of every application and then goes on (OpenID Connect Front-Channel Logout)."""
    nonce, urls = secrets.token_urlsafe(16), list(logout_urls)
    policy = _policy(script=nonce, frame=tuple(sorted({_origin(url) for url in urls})))
    values = {"target": target, "logout_urls": urls, "nonce": nonce}
    return _page("logout.html", policy, values, look, cookies=cookies)


def confirm_logout(
    action: str, hidden: Iterable[tuple[str, str]], look: PageTheme, target: str, cookies: Cookies = ()
) -> Reply:
    """A page that requires the user's confirmation of a logout that another site requested."""
    policy = _policy(form_action=("'self'", "https:", *(() if target.startswith("/") else (_origin(target),))))
    return _page("confirm_logout.html", policy, {"action": action, "hidden": list(hidden)}, look, cookies=cookies)


def logged_out(look: PageTheme, cookies: Cookies = ()) -> Reply:
    """The end of a logout that leads nowhere else."""
    return _page("logged_out.html", _policy(), {}, look, cookies=cookies)


def index(look: PageTheme, *, is_logged_in: bool) -> Reply:
    """The landing page."""
    return _page("index.html", _policy(), {"is_logged_in": is_logged_in}, look)


def _page(template: str, policy: str, values: Mapping[str, Any], look: PageTheme, cookies: Cookies = ()) -> Reply:
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }
    body = _templates().get_template(template).render(**values, texts=look).encode()
    return Reply(body, headers=headers, cookies=cookies)


def _fields(form: LoginForm | LinkForm) -> dict[str, Any]:
    described = (_DESCRIBED if form.message else Markup("")) + (_INVALID if form.is_invalid else Markup(""))
    return {field.name: getattr(form, field.name) for field in dataclasses.fields(form)} | {"described": described}


def _leads_to(form: LoginForm | LinkForm) -> tuple[str, ...]:
    """Where the form of a login may lead."""
    return _places(form.redirect_uri)


def _places(redirect_uri: str) -> tuple[str, ...]:
    """Where the forms of a request may lead that ends at this URI; identity providers are found under https.

    The hosted backend redirects on to the application, which has no TLS where the service has none: in development.
    """
    origin, path = _origin(redirect_uri), urllib.parse.urlsplit(redirect_uri).path
    goes_on = origin.startswith("http:") and path == hosted_backend_callback.PATH
    return ("'self'", "https:", origin, "http:") if goes_on else ("'self'", "https:", origin)


def _policy(
    script: str | None = None,
    form_action: tuple[str, ...] = ("'none'",),
    frame: tuple[str, ...] = (),
    image: tuple[str, ...] = (),
) -> str:
    """A Content-Security-Policy that lets in our stylesheet and, where a page needs it, one script and named frames.

    Browsers apply form-action to redirects after a form was sent, too: a login form has to name where the login leads.
    """
    directives = {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": f"'nonce-{script}'" if script else "'none'",
        "frame-src": " ".join(frame) or "'none'",
        **({"img-src": " ".join(image)} if image else {}),
        "form-action": " ".join(form_action),
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in directives.items())


def _origin(url: str) -> str:
    """The origin of a URL as a source of a policy; of a native application's URL its scheme."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        return f"{parts.scheme}:"
    if not _HOST.fullmatch(parts.netloc):
        return "'none'"
    return f"{parts.scheme}://{parts.netloc}"
