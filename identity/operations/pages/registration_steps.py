"""The steps of an application's registration form, and which of them a user can reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from identity.call import Document
from identity.domain.forms import forms as form_rules
from identity.errors import InvalidRequest
from identity.operations.clients.clients import Client
from identity.operations.forms import form_consents, forms
from identity.operations.login_transactions.login_transactions import RegistrationDraft
from identity.operations.pages import registration_verification
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class FormStep:
    """A step with its fields; `verifies` is the key of the login id that a step without fields verifies."""

    fields: Sequence[Document]
    verifies: str = ""


Steps = Sequence[FormStep]


async def load(services: Services, client: Client) -> Steps:
    """Return the steps of the application's form. Raises InvalidRequest for a form that does not exist."""
    form = await forms.find(services, client.application["registrationConfiguration"].get("formId"))
    if form is None:
        raise InvalidRequest("unknown", "The registration form of the application does not exist.")
    verified = [form_rules.VERIFIED_KEYS.get(step["type"], "") for step in form["steps"]]
    fields = [
        [{**await form_consents.with_values(services, field), **_required(field, verified)} for field in step]
        for step in await forms.load_steps(services, form)
    ]
    return [FormStep(*step) for step in zip(fields, verified, strict=True)]


def _required(field: Document, verified: Sequence[str]) -> Document:
    """Return what makes a field required if a step verifies its answer."""
    return {"required": True} if field["key"] in verified else {}


def reachable(draft: RegistrationDraft, steps: Steps, number: int) -> int:
    """Return the number of a step, or that of the first one without answers or verification if it comes earlier."""
    pending = (index for index, step in enumerate(steps, 1) if step.verifies in unverified(draft, steps))
    return max(1, min(number, draft.steps_done + 1, next(pending, len(steps)), len(steps)))


def unverified(draft: RegistrationDraft, steps: Steps) -> set[str]:
    """Return the keys of the login ids that steps still have to verify."""
    keys = {step.verifies for step in steps if step.verifies}
    return {key for key in keys if not registration_verification.is_verified(draft, key)}
