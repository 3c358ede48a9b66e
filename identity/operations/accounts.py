"""What users see and change of their own accounts. Whose account it is the browser's session says, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain import self_registration as rules
from identity.domain.self_registration import Question
from identity.errors import FieldError, Invalid
from identity.ids import UserId
from identity.instants import later
from identity.operations import (
    account_logins,
    authorization,
    crud,
    current_logins,
    login,
    password_changes,
    user_passwords,
    users,
)
from identity.operations.authorization_steps import Browser, Current
from identity.operations.clients import Client
from identity.operations.password_changes import Change
from identity.services import Services
from identity.store.rate_limits import Limit

FRESH_SECONDS: Final = 900
"""How long ago a user may have logged in for what decides about the account: password, address, second factors."""

_PASSWORD_FAILURES: Final = 10
_PASSWORD_SECONDS: Final = 900
_MERGE: Final = "application/merge-patch+json"
_EMAIL: Final = Question("email", is_required=True)
_PLAIN: Final = (
    Question("firstName", is_required=False),
    Question("lastName", is_required=False),
    Question("preferredLanguages", is_required=False),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """A user who is logged in here, as stored now."""

    client: Client
    user: Document
    current: Current

    @property
    def user_id(self) -> UserId:
        """The id of the user, which comes from the session alone."""
        return UserId(self.user["id"])


async def find(services: Services, call: Call, client: Client, browser: Browser) -> Account | None:
    """The account of whoever is logged in in this browser, unless something stands in the way: the login says what."""
    strict = account_logins.guarded(client)
    current = await current_logins.recall_session(services, call, strict, None, browser)
    if current is None or authorization.gate(call, strict, current) is not None:
        return None
    return Account(client, current.user, current)


def is_fresh(call: Call, account: Account) -> bool:
    """Whether the user logged in a short time ago."""
    return later(account.current.session.auth_instant, seconds=FRESH_SECONDS) > call.now


def questions(account: Account) -> tuple[Question, ...]:
    """The fields that a user may change: those of the application's registration, else the name and the language."""
    application = account.client.application
    own = rules.profile_of(application) if rules.is_offered(application) else _PLAIN
    return (_EMAIL, *own) if account.user.get("email") else own


def values(account: Account) -> dict[str, str]:
    """What the fields hold now: of several languages the first one."""
    found = {question.name: account.user.get(question.member) for question in questions(account)}
    return {name: str(value[0] if isinstance(value, list) else value) for name, value in found.items() if value}


async def edit(services: Services, call: Call, account: Account, form: Mapping[str, str]) -> Document:
    """Change what a form changes; answers the user.

    Raises Invalid for what is missing or wrong, and WebhookTransactionFailed. A new address is verified again where the
    tenant says so.
    """
    asked = questions(account)
    crud.gather(rules.problems(asked, form))
    answers = rules.answers(asked, form)
    change = {question.member: answers.get(question.member) for question in asked if question.name in form}
    if any(question.member == "preferredLanguages" for question in asked):
        # A list that is empty is sent as nothing.
        change["preferredLanguages"] = _languages(account, answers.get("preferredLanguages", []))
    inside = call.within(account.client.tenant_id)
    return await users.patch(services, inside, _MERGE, {"user": change}, account.user_id)


async def change_password(services: Services, call: Call, account: Account, current: str, password: str) -> None:
    """Set a new password for whoever knows the present one.

    Raises Invalid for a wrong one, or a new one that breaks the rules, and WebhookTransactionFailed. Every session
    ends, this one too.
    """
    tenant, tenant_id = account.client.tenant, account.client.tenant_id
    limits = [
        Limit("account-password", account.user_id, _PASSWORD_FAILURES, _PASSWORD_SECONDS),
        login.address_limit(call.origin.ip_address),
    ]
    if await services.rate_limits.take(tenant_id, limits) is not None:
        raise Invalid.whole("[RateLimitedException]", "Too many wrong passwords.")
    if not await user_passwords.is_correct(services, tenant, account.user, current):
        raise password_changes.wrong_current_password()
    await services.rate_limits.give_back(tenant_id, limits)
    change = Change(password, application=account.client.application)
    await password_changes.make(services, call, tenant, account.user_id, change)


def _languages(account: Account, chosen: list[str]) -> list[str]:
    """The languages after a form that shows but the first one: who leaves it as it is keeps the others."""
    before = account.user.get("preferredLanguages", [])
    return before if chosen == before[:1] else chosen


def told(errors: Sequence[FieldError]) -> list[FieldError]:
    """The errors as a page tells them: why an address cannot be used is not told, since somebody else may have it."""
    return [
        FieldError.of("unusable", error.path, "This address cannot be used.")
        if error.path == _EMAIL.name and error.code.startswith(("[duplicate]", "[inactive]"))
        else error
        for error in errors
    ]
