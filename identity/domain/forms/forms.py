"""Forms: the errors of a definition."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.domain.forms import field_keys
from identity.domain.objects.data_files import load_yaml
from identity.errors import FieldError

REGISTRATION: Final = "registration"
SELF_SERVICE: Final = "selfServiceUser"

_PATH: Final = "form.steps"
VERIFIED_KEYS: Final = {"verifyEmail": "user.email", "verifyPhoneNumber": "user.phoneNumber"}
"""The keys of the login ids that steps verify, by the type of the step."""

_OWNERS: Final = {
    "adminRegistration": frozenset({"registration"}),
    "adminUser": frozenset({"user"}),
    REGISTRATION: frozenset({"consents", "registration", "user"}),
    SELF_SERVICE: frozenset({"consents", "registration", "user"}),
}


def field_ids(form: Document) -> list[str]:
    """Return the ids of all fields in their order."""
    return [field_id for step in form["steps"] for field_id in step.get("fields", ())]


def problems(form: Document, fields: Mapping[str, Document]) -> list[FieldError]:
    """Return the errors of a form; `fields` are the existing fields by id."""
    keys = [fields[field_id]["key"] for field_id in field_ids(form) if field_id in fields]
    return list(_step_problems(form, fields)) or [
        *_position_problems(form, fields),
        *_overlaps(keys),
        *_completeness_problems(form["type"], keys),
    ]


def _step_problems(form: Document, fields: Mapping[str, Document]) -> Iterator[FieldError]:
    """A step has fields, or verifies a login id that an earlier step of a registration collects."""
    unverified: set[str] = set()
    for index, step in enumerate(form["steps"]):
        path, key, ids = f"{_PATH}[{index}]", VERIFIED_KEYS.get(step["type"]), step.get("fields")
        if key is None and not ids:
            yield FieldError.missing(f"{path}.fields", "missing" if ids is None else "empty")
        elif key is None:
            unverified.update(fields[field_id]["key"] for field_id in ids if field_id in fields)
        elif ids:
            yield FieldError.invalid(f"{path}.fields", "must be empty in a step that verifies a login id")
        elif form["type"] != REGISTRATION or key not in unverified:
            yield FieldError.invalid(f"{path}.type", f"must follow one step of a registration with a field for [{key}]")
        else:
            unverified.remove(key)


def _position_problems(form: Document, fields: Mapping[str, Document]) -> Iterator[FieldError]:
    """Each field has to exist, and to fit the type of the form."""
    for step_index, step in enumerate(form["steps"]):
        for index, field_id in enumerate(step.get("fields", ())):
            path = f"{_PATH}[{step_index}].fields[{index}]"
            if field_id not in fields:
                yield FieldError.invalid(path, "must name an existing form field")
            elif not _fits(form["type"], fields[field_id]["key"]):
                message = f"A form of type [{form['type']}] cannot have a field for [{fields[field_id]['key']}]."
                yield FieldError.of("invalid", path, message)


def _fits(form_type: str, key: str) -> bool:
    """Whether a form may set a member; only administrators may set roles, and passwords of others."""
    is_for_users = form_type in {REGISTRATION, SELF_SERVICE}
    return field_keys.owner_of(key) in _OWNERS[form_type] and not (is_for_users and key == field_keys.ROLES)


def _overlaps(keys: Sequence[str]) -> Iterator[FieldError]:
    """Two fields must not set the same member, or a member of one another's value."""
    if len(set(keys)) < len(keys):
        yield FieldError.of("duplicate", _PATH, "Two fields of the form have the same key.")
        return
    paths = sorted(_full_path(key) for key in keys)
    for one, other in itertools.pairwise(paths):
        if other[: len(one)] == one:
            yield FieldError.of("invalid", _PATH, "A field of the form sets the value of another one, or a part of it.")
            return


def _full_path(key: str) -> tuple[str, ...]:
    steps: tuple[Any, ...] = (key,) if field_keys.is_consent(key) else field_keys.path_of(key)
    return (field_keys.owner_of(key), *map(str, steps))


def _completeness_problems(form_type: str, keys: Sequence[str]) -> Iterator[FieldError]:
    """A registration requires a password and a login id."""
    if form_type != REGISTRATION:
        return
    if not set(field_keys.LOGIN_IDS).intersection(keys):
        yield FieldError.of("missingLoginId", _PATH, "The form needs a field for the email address or the username.")
    if field_keys.PASSWORD not in keys:
        yield FieldError.of("missingPassword", _PATH, "The form needs a field for the password.")


_DEFAULTS: Final = load_yaml(__file__, "default_forms.yaml")
_NAMESPACE: Final = uuid.UUID("6d2a4c0e-5b1f-5f0a-9c39-0a5a4f8e7d11")

FIELD_IDS: Final = {row["key"]: str(uuid.uuid5(_NAMESPACE, row["key"])) for row in _DEFAULTS["fields"]}
"""Key -> id of the default field, the same in every instance."""

FORM_IDS: Final = {row["type"]: str(uuid.uuid5(_NAMESPACE, row["type"])) for row in _DEFAULTS["forms"]}
"""Type -> id of the default form, the same in every instance."""


def default_fields() -> Iterator[Document]:
    """Yield the default fields."""
    common: Document = {"confirm": False, "data": {}, "options": [], "required": False, "validator": {"enabled": False}}
    for row in _DEFAULTS["fields"]:
        control, data_type = field_keys.PREDEFINED[row["key"]]
        yield {**common, **row, "id": FIELD_IDS[row["key"]], "control": control, "type": data_type}


def default_forms() -> Iterator[Document]:
    """Yield the default forms."""
    for row in _DEFAULTS["forms"]:
        steps = [{"type": "collectData", "fields": [FIELD_IDS[key] for key in keys]} for keys in row["steps"]]
        yield {**row, "id": FORM_IDS[row["type"]], "data": {}, "steps": steps}
