"""The consent page: what each scope means to whoever is asked, and the form of the answer."""

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

_ANSWER = re.compile(r"scopeConsents\['(.+)'\]")


async def reply(
    handler: OAuth2Handler,
    page: ConsentPage,
    transaction: AuthenticatedTransaction,
    *,
    message: str = "",
) -> Reply:
    """The page; `message` is the key of a text that stands above it."""
    client, question, given = page.client, page.question, transaction.verified_client.given
    look = await page_theme.load(handler, client.tenant, client.application, given)
    token, cookie = csrf.issue(handler)
    hidden = {"client_id": client.client_id, "tenantId": client.tenant_id, "intent": transaction.transaction_id}
    form = render.ConsentForm(
        application_name=client.application["name"],
        action=handler.request.path,
        hidden=(*hidden.items(), (csrf.FIELD, token)),
        redirect_uri=given["redirect_uri"],
        login_id=users.primary_login_id(page.user),
        required=tuple(scope_choice(look, client.application, scope) for scope in question.required),
        optional=tuple(
            scope_choice(look, client.application, scope, is_checked=scope in question.approved)
            for scope in question.optional
        ),
        unknown=tuple(scope_choice(look, client.application, scope) for scope in question.unknown),
        message=look[message] if message else "",
    )
    return csrf.with_status(render.consent(form, look, [cookie, *page_theme.locale_cookies(handler, given)]), message)


def approved_scopes(form: Mapping[str, str]) -> frozenset[str] | None:
    """The scopes that the answer allows; None for a refusal of them all, which is whatever is not `allow`."""
    if form.get("action") != "allow":
        return None
    answers = ((_ANSWER.fullmatch(name), value) for name, value in form.items())
    return frozenset(found[1] for found, value in answers if found is not None and value == "true")


def scope_choice(look: PageTheme, application: Document, scope: str, *, is_checked: bool = False) -> render.ScopeChoice:
    """A scope in the words of the theme, else of the application, else by its name."""
    custom: Document = next((entry for entry in application["scopes"] if entry["name"] == scope), {})
    message = look.scope_text("scope-message", scope, application) or custom.get("defaultConsentMessage") or scope
    detail = look.scope_text("scope-detail", scope, application) or custom.get("defaultConsentDetail") or ""
    return render.ScopeChoice(f"scopeConsents['{scope}']", message, detail, is_checked)
