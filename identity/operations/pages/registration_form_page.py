"""Registration by a form: its steps, one page each, whose answers wait in a login transaction.

Each step is validated when it is submitted. The last one validates all of them again, because the form, its fields or
other users may have changed meanwhile, and consumes the transaction, so that one of several concurrent requests
registers the user.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.forms import field_keys, field_values, form_requests
from identity.domain.forms import forms as form_rules
from identity.domain.lambdas import lambdas as lambda_rules
from identity.errors import FieldError, GeneralError, Invalid, InvalidRequest
from identity.operations.authorization import login_resumption
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.forms import form_consents, forms
from identity.operations.lambdas import login_validation_lambdas
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Browser, Step, VerifiedClient
from identity.operations.login_transactions.login_transactions import RegistrationDraft, RegistrationTransaction
from identity.operations.pages import registration_page, registration_verification
from identity.operations.pages.registration_page import EmailSent, FormRejected, Submission
from identity.operations.users import registrations
from identity.services import Services

_NO_DRAFT: Final = RegistrationDraft()
_BLANK: Final = "[blank]"
_EVIDENCE: Final = "verificationIds"


@dataclasses.dataclass(frozen=True, slots=True)
class FormStep:
    """A step with its fields; `verifies` is the key of the login id that a step without fields verifies.

    `form_context` is what the validation lambda gets to know of the step.
    """

    fields: Sequence[Document]
    verifies: str
    form_context: Document


Steps = Sequence[FormStep]


async def load_steps(services: Services, client: Client) -> Steps:
    """Return the steps of the application's form. Raises InvalidRequest for a form that does not exist."""
    form = await forms.find(services, client.application["registrationConfiguration"].get("formId"))
    if form is None:
        raise InvalidRequest("unknown", "The registration form of the application does not exist.")
    verified = [form_rules.VERIFIED_KEYS.get(step["type"], "") for step in form["steps"]]
    fields = [
        [{**await form_consents.with_values(services, field), **_required(field, verified)} for field in step]
        for step in await forms.load_steps(services, form)
    ]
    return [
        FormStep(shown, verifies, lambda_rules.form_context(form, shown, number, len(fields)))
        for number, (shown, verifies) in enumerate(zip(fields, verified, strict=True), 1)
    ]


def _required(field: Document, verified: Sequence[str]) -> Document:
    """Return what makes a field required if a step verifies its answer."""
    return {"required": True} if field["key"] in verified else {}


def reachable_step(draft: RegistrationDraft, steps: Steps, number: int) -> int:
    """Return the number of a step, or that of the first one without answers or verification if it comes earlier."""
    pending = (index for index, step in enumerate(steps, 1) if step.verifies in unverified(draft, steps))
    return max(1, min(number, draft.steps_done + 1, next(pending, len(steps)), len(steps)))


def unverified(draft: RegistrationDraft, steps: Steps) -> set[str]:
    """Return the keys of the login ids that steps still have to verify."""
    keys = {step.verifies for step in steps if step.verifies}
    return {key for key in keys if not registration_verification.is_verified(draft, key)}


@dataclasses.dataclass(frozen=True, slots=True)
class NextStep:
    """The answers to a step are valid and stored; `number` is the next step."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class StepRejected:
    """The errors of a step. `transaction` is the new one of a form whose last step consumed the old one."""

    rejected: FormRejected
    number: int
    transaction: RegistrationTransaction | None = None


async def find(
    services: Services, call: Call, hints: TenantHints, given: Document, cookie: str
) -> RegistrationTransaction:
    """Find the registration of this browser. Raises TransactionEndedError and what `verify_client` raises."""
    client, transaction_id = await login_resumption.requested(services, hints, given)
    found = await login_transactions.find_registration(services, client, cookie, transaction_id)
    verified_client, draft = await login_resumption.verify_stored(services, call, client, found)
    page = login_transactions.REGISTRATION_STEPS
    return RegistrationTransaction(verified_client, page, cookie, transaction_id, draft)


async def submit_first(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    form: Mapping[str, str],
    *,
    is_persistent: bool,
) -> StepRejected | Step | EmailSent:
    """Handle the first step, which has no transaction yet."""
    steps = await load_steps(services, verified_client.client)
    draft = dataclasses.replace(_NO_DRAFT, is_persistent=is_persistent)
    result = await _apply(services, call, verified_client.client, steps, draft, 1, form)
    if isinstance(result, StepRejected):
        return result
    if len(steps) > 1:
        page = await login_transactions.store_registration(services, verified_client, result)
        transaction_id = login_transactions.transaction_id_of(page.transaction_secret)
        await _send_first_code(services, call, verified_client.client, transaction_id, result, steps[1].verifies)
        return page
    return await _register(services, call, verified_client, browser, steps, result)


async def submit(
    services: Services,
    call: Call,
    transaction: RegistrationTransaction,
    browser: Browser,
    number: int,
    form: Mapping[str, str],
) -> NextStep | StepRejected | Step | EmailSent:
    """Handle a step of a stored registration. Raises TransactionEndedError, and what `complete` raises."""
    verified_client = transaction.verified_client
    steps = await load_steps(services, verified_client.client)
    number = reachable_step(transaction.draft, steps, number)
    if steps[number - 1].verifies:
        result = await _verify(services, call, transaction, steps, number, form)
    else:
        result = await _apply(services, call, verified_client.client, steps, transaction.draft, number, form)
    if isinstance(result, StepRejected):
        return result
    if number < len(steps):
        await login_transactions.update_registration(services, transaction, result)
        await _send_first_code(
            services, call, transaction.client, transaction.transaction_id, result, steps[number].verifies
        )
        return NextStep(number + 1)
    await login_transactions.consume(services, transaction)
    outcome = await _register(services, call, verified_client, browser, steps, result)
    if not isinstance(outcome, StepRejected):
        return outcome
    if any(error.path.startswith(_EVIDENCE) for error in outcome.rejected.fields):
        # The evidence expired, or created another user: verify again.
        result, outcome = dataclasses.replace(result, verified={}), StepRejected(FormRejected(), outcome.number)
    return dataclasses.replace(outcome, transaction=await _store_again(services, transaction, result))


async def _store_again(
    services: Services, transaction: RegistrationTransaction, draft: RegistrationDraft
) -> RegistrationTransaction:
    """Store the answers of a consumed transaction in a new one, which takes its place in the cookie."""
    page = await login_transactions.store_registration(services, transaction.verified_client, draft)
    rest = login_transactions.cookie_without(transaction.cookie, transaction.transaction_id)
    return dataclasses.replace(
        transaction,
        draft=draft,
        cookie=login_transactions.cookie_with(rest, page.transaction_secret),
        transaction_id=login_transactions.transaction_id_of(page.transaction_secret),
    )


async def _send_first_code(
    services: Services, call: Call, client: Client, transaction_id: str, draft: RegistrationDraft, key: str
) -> None:
    """Send the code of the next step if it verifies a login id."""
    if key:
        verification = registration_verification.of(client, transaction_id, draft, key)
        await registration_verification.send_first(services, call, verification)


async def _verify(
    services: Services,
    call: Call,
    transaction: RegistrationTransaction,
    steps: Steps,
    number: int,
    form: Mapping[str, str],
) -> RegistrationDraft | StepRejected:
    """Return the draft with the login id of a step verified, or the message of the step, as after another code."""
    draft = dataclasses.replace(transaction.draft, steps_done=max(transaction.draft.steps_done, number))
    key = steps[number - 1].verifies
    verification = registration_verification.of(transaction.client, transaction.transaction_id, draft, key)
    result = await registration_verification.submit(services, call, verification, draft, form)
    if isinstance(result, RegistrationDraft):
        return result
    return StepRejected(FormRejected(general=[GeneralError(result, "")]), number)


async def _apply(
    services: Services,
    call: Call,
    client: Client,
    steps: Steps,
    draft: RegistrationDraft,
    number: int,
    form: Mapping[str, str],
) -> RegistrationDraft | StepRejected:
    """Return the draft with the answers to a step, or the errors of the step."""
    fields = steps[number - 1].fields
    answers = {**field_values.read(fields, form)}
    if _keeps_password(draft, answers):
        answers[field_keys.PASSWORD] = draft.answers[field_keys.PASSWORD]
        form = {**form, field_values.CONFIRM + field_keys.PASSWORD: answers[field_keys.PASSWORD]}
    draft = dataclasses.replace(draft, answers={**draft.answers, **answers}, steps_done=max(draft.steps_done, number))
    try:
        await registration_page.count_attempt(services, call.within(client.tenant_id), client)
    except Invalid as error:
        return StepRejected(FormRejected(general=error.general), number)
    problems = form_requests.problems(fields, answers, form)
    shown = frozenset(field["key"] for field in fields)
    # The rules of passwords depend on login ids; the rest of the other steps would only be checked again.
    relevant = {key: answer for key, answer in draft.answers.items() if key in shown.union(field_keys.LOGIN_IDS)}
    checked = dataclasses.replace(draft, answers=relevant)
    submission = dataclasses.replace(await _submission(services, client, steps, checked, problems), shown=shown)
    hidden = unverified(draft, steps)
    found = await _state_problems(services, call, client, submission)
    errors = [*submission.errors, *(error for error in found if not _is_in_use(error, hidden))]
    if errors:
        return StepRejected(FormRejected(errors), number)
    rejected = await _validate_by_lambda(services, call, client, steps, draft, number)
    return draft if rejected is None else StepRejected(rejected, number)


async def _validate_by_lambda(
    services: Services, call: Call, client: Client, steps: Steps, draft: RegistrationDraft, number: int
) -> FormRejected | None:
    """Return the errors of the validation lambda about the answers so far. The last step is validated with the user."""
    if number == len(steps) or not login_validation_lambdas.validates_registrations(client.application):
        return None
    call = call.within(client.tenant_id)
    body = (await _submission(services, client, steps, draft, ())).body
    registration = registrations.default_registration(services, call, client.application)
    fields, general = await login_validation_lambdas.registration_errors(
        services,
        call,
        client.application,
        {"data": {}, "registrations": [], "twoFactor": {"methods": []}, **body["user"]},
        {**registration, **body["registration"]},
        steps[number - 1].form_context,
    )
    return FormRejected(fields, general) if fields or general else None


def _keeps_password(draft: RegistrationDraft, answers: Mapping[str, Any]) -> bool:
    """Whether a step that is submitted again leaves the stored password, which its page does not show, unchanged."""
    return answers.get(field_keys.PASSWORD) == "" and field_keys.PASSWORD in draft.answers


async def _state_problems(services: Services, call: Call, client: Client, submission: Submission) -> list[FieldError]:
    """Return the errors of a step that depend on the tenant's rules and on other users.

    A blank login id is not one of them, because another step may have another one.
    """
    found = await registration_page.further_problems(services, call.within(client.tenant_id), submission)
    if registration_page.hides_existing_users(client, submission):
        found = registration_page.without_email_in_use(found)
    return [error for error in found if not error.code.startswith(_BLANK)]


def _is_in_use(error: FieldError, keys: Iterable[str]) -> bool:
    """Whether an error reveals that the login id of one of the keys is in use."""
    return any(error.code in {f"[duplicate]{key}", f"[inactive]{key}"} for key in keys)


async def _register(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    steps: Steps,
    draft: RegistrationDraft,
) -> StepRejected | Step | EmailSent:
    """Register the user. A rejected registration returns to the first step with an error."""
    client = verified_client.client
    repeated = {field_values.CONFIRM + key: answer for key, answer in draft.answers.items()}
    errors = [error for step in steps for error in form_requests.problems(step.fields, draft.answers, repeated)]
    submission = await _submission(services, client, steps, draft, errors)
    outcome = await registration_page.complete(
        services, call, verified_client, browser, submission, is_persistent=draft.is_persistent
    )
    if not isinstance(outcome, FormRejected):
        return outcome
    paths = {error.path for error in outcome.fields}
    numbers = (
        number for number, step in enumerate(steps, 1) if paths.intersection(field["key"] for field in step.fields)
    )
    return StepRejected(outcome, next(numbers, len(steps)))


async def _submission(
    services: Services, client: Client, steps: Steps, draft: RegistrationDraft, errors: Sequence[FieldError]
) -> Submission:
    """Return what the answers so far register."""
    fields = [field for step in steps for field in step.fields]
    start: Document = {"user": {}, "registration": {"applicationId": client.client_id}}
    body = form_requests.members(_valid(fields, draft.answers, errors), draft.answers, start)
    given = [await form_consents.read(services, field, draft.answers.get(field["key"])) for field in fields]
    keys = frozenset(field["key"] for field in fields)
    consents = [consent for consent in given if consent is not None]
    body[_EVIDENCE] = registration_verification.verification_ids(draft)
    has_verified_email = registration_verification.is_verified(draft, "user.email")
    return Submission(body, keys, errors, consents, has_verified_email, steps[-1].form_context)


def _valid(fields: Sequence[Document], answers: Mapping[str, Any], errors: Sequence[FieldError]) -> list[Document]:
    """Return the fields with an answer that has no error."""
    rejected = {error.path.removeprefix(field_values.CONFIRM) for error in errors}
    return [field for field in fields if field["key"] in answers and field["key"] not in rejected]
