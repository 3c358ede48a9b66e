"""Template values of the two-factor pages."""

from __future__ import annotations

from markupsafe import Markup

from identity.call import Document
from identity.domain.two_factor import two_factor
from identity.operations.pages import page_messages
from identity.operations.pages.method_setup import MethodSetup
from identity.operations.pages.two_factor_pages import ChallengePage
from identity.web.hosted.page_theme import PageTheme

_KEY_GROUP = 4


def code_values(page: ChallengePage, theme: PageTheme) -> Document:
    """Return the values of the page that asks for a code of the chosen method."""
    assert page.chosen is not None
    return {"lead": _lead(page.chosen, theme), **_message_values(page.message, theme)}


def choice_values(page: ChallengePage, theme: PageTheme) -> Document:
    """Return the values of the page that lists the methods."""
    methods = [
        {"id": method["id"], "text": name_of(method, theme), "detail": _detail(method, theme)}
        for method in page.methods
    ]
    last_used = next((method["id"] for method in page.methods if method.get("lastUsed")), page.methods[0]["id"])
    message = page.message if page.message != page_messages.CODE_SENT else ""
    return {"methods": methods, "used": last_used, "message": theme.message(message), "is_good": False}


def setup_values(setup: MethodSetup, theme: PageTheme, message: str, url: str) -> Document:
    """Return the values of the page that sets up a method; `url` is the page's own."""
    key_groups = [setup.secret[i : i + _KEY_GROUP] for i in range(0, len(setup.secret), _KEY_GROUP)]
    others = [method for method in setup.available if method != setup.method]
    return {
        "method": setup.method,
        "secret": setup.secret,
        "grouped": " ".join(key_groups),
        "address": setup.masked_address,
        "others": [(f"{url}&method={method}", theme[f"twoFactorEnable.{method}"]) for method in others],
        "path": "",
        "side": 0,
        **_message_values(message, theme),
    }


def name_of(method: Document, theme: PageTheme) -> str:
    """Return the name that the user gave a method, else that of its kind."""
    return str(method.get("name") or theme[f"twoFactor.{method['method']}"])


def address_of(method: Document) -> str:
    """Return the masked address of a method; empty for an authenticator app."""
    return str(method.get("email") or method.get("mobilePhone") or "")


def _message_values(key: str, theme: PageTheme) -> Document:
    is_wrong = key == page_messages.WRONG_CODE
    return {"message": theme.message(key), "is_good": key == page_messages.CODE_SENT, "is_wrong": is_wrong}


def _lead(method: Document, theme: PageTheme) -> Markup | str:
    if method["method"] == two_factor.AUTHENTICATOR:
        return theme["twoFactor.leadAuthenticator"]
    return theme.fill("twoFactor.leadSent", address_of(method), strong=True)


def _detail(method: Document, theme: PageTheme) -> str:
    return address_of(method) or (theme["twoFactor.authenticator"] if method.get("name") else "")
