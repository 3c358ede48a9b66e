"""The pages of the device grant: enter the user code, approve the device, and the result."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Final

from identity.call import Document
from identity.domain.clients import scopes
from identity.domain.users import users
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import device_page
from identity.operations.pages.device_page import DevicePage
from identity.web.endpoint import Reply
from identity.web.hosted import consent, csrf, login, page_theme, render
from identity.web.hosted.page_theme import PageTheme
from identity.web.hosted.render import ScopeChoice
from identity.web.oauth2.oauth_handlers import OAuth2Handler

_RESERVED: Final = {scopes.OPENID: "deviceApproval.identity", scopes.OFFLINE_ACCESS: "deviceApproval.offline"}
_FAILURES: Final = {
    "consent_canceled": "deviceComplete.deniedText",
    "invalid_user_code": "deviceComplete.failedText",
    "user_code_expired": "deviceComplete.failedText",
}
"""error_reason -> key of the page text about the result."""

_MAXIMUM_LENGTH: Final = 300


async def reply_code_form(
    handler: OAuth2Handler,
    client: Client,
    given: Mapping[str, str],
    user: Document | None,
    *,
    user_code: str,
    message: str = "",
) -> Reply:
    """Return the page that asks for a user code; `user` is signed in, `message` is the key of a page text."""
    theme = await page_theme.load(handler, client.tenant, client.application, given)
    token, cookie = csrf.issue(handler)
    values = {
        "application_name": client.application["name"],
        "action": handler.request.path,
        "hidden": [*_client_parameters(client).items(), *_locale(given), (csrf.FIELD, token)],
        "user_code": user_code[:_MAXIMUM_LENGTH],
        "login_id": "" if user is None else users.primary_login_id(user),
        "sign_out": _sign_out(handler, client),
        "message": theme.message(message),
    }
    return csrf.with_status(render.form("device.html", values, theme, cookies=[cookie]), message)


async def reply_approval_form(
    handler: OAuth2Handler,
    page: DevicePage,
    transaction: AuthenticatedTransaction,
    *,
    is_hosted: bool,
    message: str = "",
) -> Reply:
    """Return the page that describes the device, its scopes and the address of its request, for approval."""
    client, device, given = page.client, page.device, transaction.verified_client.given
    theme = await page_theme.load(handler, client.tenant, client.application, earlier=given, user=page.current.user)
    token, cookie = csrf.issue(handler)
    hidden = {
        **_client_parameters(client),
        "intent": transaction.transaction_id,
        "grant": device.grant_id,
        csrf.FIELD: token,
    }
    values = {
        "application_name": client.application["name"],
        "action": handler.request.path,
        "hidden": list(hidden.items()),
        "facts": list(_facts(theme, page)),
        "scopes": [_choice(theme, client.application, scope) for scope in device.request.scopes],
        "login_id": users.primary_login_id(page.current.user),
        "sign_out": _sign_out(handler, client),
        "target": "" if is_hosted else urllib.parse.urlsplit(given["redirect_uri"]).hostname or given["redirect_uri"],
        "message": theme.message(message),
    }
    redirect_uri = None if is_hosted else given["redirect_uri"]
    reply = render.form("device_approval.html", values, theme, redirect_uri=redirect_uri, cookies=[cookie])
    return csrf.with_status(reply, message)


async def reply_result(handler: OAuth2Handler, client: Client, given: Mapping[str, str]) -> Reply:
    """Return the page about the result: connected, or the reason why not."""
    theme = await page_theme.load(handler, client.tenant, client.application, given)
    failure = given.get("error_reason", "") if "error" in given else None
    values = {
        "failure": None if failure is None else theme[_FAILURES.get(failure, "deviceComplete.refusedText")],
        "linked": await device_page.find_linked_provider_name(handler.services, client, given.get("linked")),
        "again": f"{login.base_path(handler)}/device?{urllib.parse.urlencode(_client_parameters(client))}",
    }
    return render.form("device_complete.html", values, theme)


def _facts(theme: PageTheme, page: DevicePage) -> Iterator[tuple[str, str]]:
    """Return the details of the device as labels and values."""
    request = page.device.request
    yield theme["deviceApproval.code"], request.user_code
    for name in ("name", "description", "type"):
        if request.device.get(name):
            yield theme[f"deviceApproval.{name}"], request.device[name][:_MAXIMUM_LENGTH]
    yield theme["deviceApproval.address"], request.address
    if page.link:
        account = page.link.get("displayName") or page.link["identityProviderUserId"]
        yield theme["deviceApproval.link"], f"{account} ({page.link['identityProviderName']})"


def _choice(theme: PageTheme, application: Document, scope: str) -> ScopeChoice:
    if scope in _RESERVED:
        return ScopeChoice("", theme[_RESERVED[scope]], "")
    return consent.scope_choice(theme, application, scope)


def _client_parameters(client: Client) -> dict[str, str]:
    return {"client_id": client.client_id, "tenantId": client.tenant_id}


def _locale(given: Mapping[str, str]) -> list[tuple[str, str]]:
    return [("locale", given["locale"])] if "locale" in given else []


def _sign_out(handler: OAuth2Handler, client: Client) -> str:
    return f"{login.base_path(handler)}/logout?{urllib.parse.urlencode(_client_parameters(client))}"
