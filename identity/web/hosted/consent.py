"""The consent page: the texts of the requested scopes, and the parsing of its form."""

from __future__ import annotations

import re
from collections.abc import Mapping

from identity.call import Document
from identity.domain.users import users
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages.consent_page import ConsentPage
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, page_theme, render
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import OAuth2Handler

_SCOPE_FIELD = re.compile(r"scopeConsents\['(.+)'\]")


async def reply(
    handler: OAuth2Handler,
    page: ConsentPage,
    transaction: AuthenticatedTransaction,
    *,
    message: str = "",
) -> Reply:
    """Return the page; `message` is the key of a page text."""
    client, prompt, given = page.client, page.prompt, transaction.verified_client.given
    theme = await page_theme.load(handler, client.tenant, client.application, earlier=given, user=page.user)
    token, cookie = csrf.issue(handler)
    hidden = {"client_id": client.client_id, "tenantId": client.tenant_id, "intent": transaction.transaction_id}
    form = render.ConsentForm(
        application_name=client.application["name"],
        action=handler.request.path,
        hidden=(*hidden.items(), (csrf.FIELD, token)),
        redirect_uri=given["redirect_uri"],
        login_id=users.primary_login_id(page.user),
        required=tuple(scope_choice(theme, client.application, scope) for scope in prompt.required),
        optional=tuple(
            scope_choice(theme, client.application, scope, is_checked=scope in prompt.approved)
            for scope in prompt.optional
        ),
        unknown=tuple(scope_choice(theme, client.application, scope) for scope in prompt.unknown),
        message=theme.message(message),
    )
    return csrf.with_status(render.consent(form, theme, [cookie]), message)


def approved_scopes(form: Mapping[str, str]) -> frozenset[str] | None:
    """Return the approved scopes of a form; None unless its action is `allow`."""
    if form.get("action") != "allow":
        return None
    answers = ((_SCOPE_FIELD.fullmatch(name), value) for name, value in form.items())
    return frozenset(found[1] for found, value in answers if found is not None and value == "true")


def scope_choice(
    theme: PageTheme, application: Document, scope: str, *, is_checked: bool = False
) -> render.ScopeChoice:
    """Return a scope with its texts of the theme, else of the application, else its name."""
    custom: Document = next((entry for entry in application["scopes"] if entry["name"] == scope), {})
    message = theme.scope_text("scope-message", scope, application) or custom.get("defaultConsentMessage") or scope
    detail = theme.scope_text("scope-detail", scope, application) or custom.get("defaultConsentDetail") or ""
    return render.ScopeChoice(f"scopeConsents['{scope}']", message, detail, is_checked)
