"""The profile form of the account page: `formConfiguration.selfServiceFormId` of the application.

Only answers that differ from what is stored are validated and written. A new email address stays pending until it is
verified, as on the page without a form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.forms import field_keys, field_values, form_requests
from identity.domain.users import users as user_rules
from identity.operations.forms import form_consents, forms
from identity.operations.objects import crud
from identity.operations.pages import accounts
from identity.operations.pages.accounts import Account
from identity.operations.users import registrations, users
from identity.operations.verification import email_change_requests
from identity.operations.verification.verification_codes import OpenVerification
from identity.services import Services

_JSON_PATCH: Final = "application/json-patch+json"
_EMAIL: Final = "user.email"
_PHONE: Final = "user.phoneNumber"
_DATA: Final = "data"


@dataclasses.dataclass(frozen=True, slots=True)
class Edited:
    """The verification that a new email address waits for, and whether a new password ended all sessions."""

    started: OpenVerification | None = None
    has_new_password: bool = False


async def load_fields(services: Services, account: Account) -> list[Document]:
    """Return the fields of the application's form that apply to the account; none without a form."""
    form = await forms.find(services, account.client.application["formConfiguration"].get("selfServiceFormId"))
    steps = [] if form is None else await forms.load_steps(services, form)
    return [
        await form_consents.with_values(services, field)
        for step in steps
        for field in step
        if _applies(account, field["key"])
    ]


async def current_answers(services: Services, account: Account, fields: Sequence[Document]) -> dict[str, Any]:
    """Return the stored values as answers; the password is blank."""
    stored = _stored(account)
    consents = await form_consents.find_active(services, account.user)
    return {field["key"]: _current_answer(field, stored, consents) for field in fields}


async def edit(
    services: Services, call: Call, account: Account, fields: Sequence[Document], form: Mapping[str, str]
) -> Edited:
    """Apply a form's changes.

    A new login identifier requires the current password or a two-factor code; a new password requires the current one
    if the application does. Raises Invalid, Unavailable when a rate limit is exceeded, and WebhookTransactionFailed.
    """
    current, answers = await current_answers(services, account, fields), field_values.read(fields, form)
    changed = [field for field in fields if answers[field["key"]] != current[field["key"]]]
    cleared = [field for field in fields if not answers[field["key"]] and field["key"] != field_keys.PASSWORD]
    checked = [*changed, *(field for field in cleared if field not in changed)]
    crud.require_no_errors(form_requests.problems(checked, answers, form))
    call = call.within(account.client.tenant_id)
    await _require_authorized(services, call, account, {field["key"] for field in changed}, form)
    email = answers[_EMAIL] if any(field["key"] == _EMAIL for field in changed) else ""
    if email and not email_change_requests.is_different(account.user, email):
        email = ""
    if email:
        await email_change_requests.require_usable(services, call, account.client.tenant, account.user, email)
    changed = [field for field in changed if field["key"] != _EMAIL]
    await _write(services, call, account, changed, answers)
    if not email:
        return Edited(has_new_password=bool(answers.get(field_keys.PASSWORD)))
    return Edited(await email_change_requests.request_change(services, call, account.client, account.user, email))


def _applies(account: Account, key: str) -> bool:
    """Whether a field can be edited.

    Registrations have to exist, login identifiers require a confirmation. A phone number cannot be changed, because
    nothing would verify it.
    """
    if key.startswith("registration."):
        return user_rules.find_registration(account.user, account.client.client_id) is not None
    return key not in field_keys.LOGIN_IDS or (key != _PHONE and accounts.confirmation_of(account) is not None)


def _stored(account: Account) -> Document:
    registration = user_rules.find_registration(account.user, account.client.client_id)
    return {"user": account.user, "registration": registration or {}}


def _current_answer(field: Document, stored: Document, consents: Mapping[str, Document]) -> Any:
    key = field["key"]
    if key == field_keys.PASSWORD:
        return ""
    if field_keys.is_consent(key):
        active = consents.get(field["consentId"])
        return form_consents.to_answer(field, active)
    value = field_keys.value_of(stored[field_keys.owner_of(key)], field_keys.path_of(key))
    if key in field_keys.LISTS:
        # The page shows the first of several; an unchanged answer keeps all.
        return value[0] if value else ""
    return field_values.to_answer(field, value)


async def _require_authorized(
    services: Services, call: Call, account: Account, keys: set[str], form: Mapping[str, str]
) -> None:
    """Require the confirmation that the changed members need. Raises Invalid."""
    configured = account.client.application["formConfiguration"]["selfServiceFormConfiguration"]
    guarded = {*field_keys.LOGIN_IDS}
    if configured["requireCurrentPasswordOnPasswordChange"] and accounts.confirmation_of(account) is not None:
        guarded.add(field_keys.PASSWORD)
    if keys & guarded:
        await accounts.require_confirmation(services, call, account, form)


async def _write(
    services: Services, call: Call, account: Account, fields: Sequence[Document], answers: Mapping[str, Any]
) -> None:
    """Write the changed members of the user and the registration, and the changed consents. Raises Invalid."""
    stored = _stored(account)
    wanted = form_requests.members(fields, answers, stored)
    consents = [field for field in fields if field_keys.is_consent(field["key"])]
    given = [(field, await form_consents.read(services, field, answers[field["key"]])) for field in consents]
    crud.require_no_errors(
        form_consents.age_problems([consent for _, consent in given if consent], wanted["user"], call.now)
    )
    user_patch = list(_operations("user", fields, stored, wanted))
    if user_patch:
        await users.patch(services, call, _JSON_PATCH, user_patch, account.user_id)
    registration_patch = list(_operations("registration", fields, stored, wanted))
    if registration_patch:
        client_id = account.client.client_id
        await registrations.patch(services, call, _JSON_PATCH, registration_patch, account.user_id, client_id)
    for field, consent in given:
        await form_consents.replace(services, call, account.user, field["consentId"], consent)


def _operations(owner: str, fields: Sequence[Document], stored: Document, wanted: Document) -> Iterator[dict[str, Any]]:
    """Yield the operations of a JSON Patch that writes the changed members; of `data` the members one level below."""
    paths = {_member(field["key"]) for field in fields if field_keys.owner_of(field["key"]) == owner}
    for path in sorted(paths):
        pointer = "/".join(("", owner, *path))
        value = field_keys.value_of(wanted[owner], path)
        if value is not None:
            yield {"op": "add", "path": pointer, "value": value}
        elif field_keys.value_of(stored[owner], path) is not None:
            yield {"op": "remove", "path": pointer}


def _member(key: str) -> tuple[str, ...]:
    path = field_keys.path_of(key)
    return tuple(map(str, path[: 2 if path[0] == _DATA else 1]))
