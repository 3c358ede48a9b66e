"""The pages of the device grant: the one that asks for a code, the one that asks about a device, and the last one."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Final

from identity.call import Document
from identity.domain.clients import scopes
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.users import users
from identity.ids import parse_id
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
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
"""error_reason -> the key of what the last page says of it."""

_LONGEST: Final = 300


async def reply_code_form(
    handler: OAuth2Handler,
    client: Client,
    given: Mapping[str, str],
    user: Document | None,
    *,
    user_code: str,
    message: str = "",
) -> Reply:
    """The page that asks for a code; `user` is whoever is signed in, `message` the key of a text that stands above."""
    look = await page_theme.load(handler, client.tenant, client.application, given)
    token, cookie = csrf.issue(handler)
    values = {
        "application_name": client.application["name"],
        "action": handler.request.path,
        "hidden": [*_place(client).items(), *_locale(given), (csrf.FIELD, token)],
        "user_code": user_code[:_LONGEST],
        "login_id": "" if user is None else users.primary_login_id(user),
        "sign_out": _sign_out(handler, client),
        "message": look[message] if message else "",
    }
    return csrf.with_status(render.form("device.html", values, look, cookies=[cookie]), message)


async def reply_approval_form(
    handler: OAuth2Handler,
    page: DevicePage,
    transaction: AuthenticatedTransaction,
    *,
    is_hosted: bool,
    message: str = "",
) -> Reply:
    """The page that asks about a device: whose application it is, what it gets, and where it asked from."""
    client, device, given = page.client, page.device, transaction.verified_client.given
    look = await page_theme.load(handler, client.tenant, client.application, given)
    token, cookie = csrf.issue(handler)
    hidden = {**_place(client), "intent": transaction.transaction_id, "grant": device.grant_id, csrf.FIELD: token}
    values = {
        "application_name": client.application["name"],
        "action": handler.request.path,
        "hidden": list(hidden.items()),
        "facts": list(_facts(look, page)),
        "scopes": [_choice(look, client.application, scope) for scope in device.grant["scopes"]],
        "login_id": users.primary_login_id(page.current.user),
        "sign_out": _sign_out(handler, client),
        "target": "" if is_hosted else urllib.parse.urlsplit(given["redirect_uri"]).hostname or given["redirect_uri"],
        "message": look[message] if message else "",
    }
    redirect_uri = None if is_hosted else given["redirect_uri"]
    reply = render.form("device_approval.html", values, look, redirect_uri=redirect_uri, cookies=[cookie])
    return csrf.with_status(reply, message)


async def reply_result(handler: OAuth2Handler, client: Client, given: Mapping[str, str]) -> Reply:
    """The last page: connected, or not, and why."""
    look = await page_theme.load(handler, client.tenant, client.application, given)
    failure = given.get("error_reason", "") if "error" in given else None
    values = {
        "failure": None if failure is None else look[_FAILURES.get(failure, "deviceComplete.refusedText")],
        "linked": await _linked(handler, client, given.get("linked")),
        "again": f"{login.base_path(handler)}/device?{urllib.parse.urlencode(_place(client))}",
    }
    return render.form("device_complete.html", values, look)


async def _linked(handler: OAuth2Handler, client: Client, provider_id: str | None) -> str:
    """The name of the provider at which an account was linked, if the tenant has it."""
    named = parse_id(provider_id)
    provider = None if named is None else await handler.services.identity_providers.find_cached(None, named)
    is_known = provider is not None and provider_rules.is_available_to(provider, client.tenant_id)
    return str(provider["name"]) if provider is not None and is_known else ""


def _facts(look: PageTheme, page: DevicePage) -> Iterator[tuple[str, str]]:
    """What is known of the device, label and value."""
    grant = page.device.grant
    yield look["deviceApproval.code"], grant["userCode"]
    for name in ("name", "description", "type"):
        if grant["device"].get(name):
            yield look[f"deviceApproval.{name}"], grant["device"][name][:_LONGEST]
    yield look["deviceApproval.address"], grant["address"]
    if page.link:
        account = page.link.get("displayName") or page.link["identityProviderUserId"]
        yield look["deviceApproval.link"], f"{account} ({page.link['identityProviderName']})"


def _choice(look: PageTheme, application: Document, scope: str) -> ScopeChoice:
    if scope in _RESERVED:
        return ScopeChoice("", look[_RESERVED[scope]], "")
    return consent.scope_choice(look, application, scope)


def _place(client: Client) -> dict[str, str]:
    return {"client_id": client.client_id, "tenantId": client.tenant_id}


def _locale(given: Mapping[str, str]) -> list[tuple[str, str]]:
    return [("locale", given["locale"])] if "locale" in given else []


def _sign_out(handler: OAuth2Handler, client: Client) -> str:
    return f"{login.base_path(handler)}/logout?{urllib.parse.urlencode(_place(client))}"
