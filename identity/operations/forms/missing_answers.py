"""The required fields of the registration form that a user who signs in has not answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.forms import field_keys
from identity.domain.users import users as user_rules
from identity.operations.forms import form_consents, forms
from identity.services import Services

_NOT_COLLECTED: Final = frozenset({field_keys.PASSWORD, *field_keys.LOGIN_IDS})
"""What a login has proved, or does not need."""


async def find(services: Services, application: Document, user: Document) -> list[Document]:
    """Return the required fields whose members the user, the registration or the user's consents lack."""
    form = await forms.find(services, application["registrationConfiguration"].get("formId"))
    steps = [] if form is None else await forms.load_steps(services, form)
    required = [field for step in steps for field in step if field["required"] and field["key"] not in _NOT_COLLECTED]
    has_consents = any(field_keys.is_consent(field["key"]) for field in required)
    consents = await form_consents.find_active(services, user) if has_consents else {}
    stored = {"user": user, "registration": user_rules.find_registration(user, application["id"]) or {}}
    return [
        await form_consents.with_values(services, field) for field in required if _is_missing(field, stored, consents)
    ]


def _is_missing(field: Document, stored: Document, consents: Mapping[str, Any]) -> bool:
    key = field["key"]
    if field_keys.is_consent(key):
        return field["consentId"] not in consents
    value = field_keys.value_of(stored[field_keys.owner_of(key)], field_keys.path_of(key))
    return value is None or value is False or value in ("", [])
