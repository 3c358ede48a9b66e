"""What the pages of second factors say: which method, where its code was sent, and what was wrong with the last one."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from identity.call import Document
from identity.operations.pages import two_factor_pages, two_factor_setup
from identity.operations.pages.account_two_factor import Adding
from identity.operations.pages.two_factor_pages import ChallengePage
from identity.operations.pages.two_factor_setup import SetupPage
from identity.web.hosted.page_theme import PageTheme

_GROUP = 4


def code(page: ChallengePage, look: PageTheme) -> Document:
    """What the template of the code reads."""
    assert page.chosen is not None
    return {
        "lead": _lead(page.chosen, look),
        **_message(page.message, look, two_factor_pages.SENT, two_factor_pages.WRONG),
    }


def choice(page: ChallengePage, look: PageTheme) -> Document:
    """What the template of the choice reads."""
    shown = [{"id": one["id"], "text": _called(one, look), "detail": _detail(one, look)} for one in page.methods]
    used = next((one["id"] for one in page.methods if one.get("lastUsed")), page.methods[0]["id"])
    message = page.message if page.message != two_factor_pages.SENT else ""
    return {"methods": shown, "used": used, "message": look[message] if message else "", "is_good": False}


def setup(page: SetupPage | Adding, look: PageTheme, message: str, place: str) -> Document:
    """What the template of a new method reads; at `place` the page is found for any other method."""
    return {
        "method": page.method,
        "secret": page.secret,
        "grouped": " ".join(_groups(page.secret)),
        "address": page.address,
        "others": [(f"{place}&method={one}", _use(one, look)) for one in page.offered if one != page.method],
        "path": "",
        "side": 0,
        **_message(message, look, two_factor_setup.SENT, two_factor_setup.WRONG),
    }


def _message(key: str, look: PageTheme, sent: str, wrong: str) -> Document:
    return {"message": look[key] if key else "", "is_good": key == sent, "is_wrong": key == wrong}


def _groups(secret: str) -> Iterable[str]:
    return (secret[i : i + _GROUP] for i in range(0, len(secret), _GROUP))


def _lead(method: Document, look: PageTheme) -> Markup | str:
    if method["method"] == "authenticator":
        return look["twoFactor.leadAuthenticator"]
    return look.fill("twoFactor.leadSent", method.get("email") or method.get("mobilePhone") or "", strong=True)


def _called(method: Document, look: PageTheme) -> str:
    return str(method.get("name") or look[f"twoFactor.{method['method']}"])


def _detail(method: Document, look: PageTheme) -> str:
    address = method.get("email") or method.get("mobilePhone") or ""
    return str(address) or (look["twoFactor.authenticator"] if method.get("name") else "")


def _use(method: str, look: PageTheme) -> str:
    return look[f"twoFactorEnable.{method}"]
