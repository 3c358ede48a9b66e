"""Self-service registration: the form fields of an application's `registrationConfiguration`.

Fields have the names of the published pages, such as `user.firstName`. Only configured fields are read, so that a form
cannot set roles, or a birth date that the application does not collect.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from identity.call import Document
from identity.errors import FieldError

PASSWORD: Final = "user.password"  # noqa: S105 (the name of a field)
CONFIRM: Final = "passwordConfirm"

_PROFILE: Final = (
    "firstName", "middleName", "lastName", "fullName", "birthDate", "mobilePhone", "preferredLanguages",
)  # fmt: skip
_LISTS: Final = frozenset({"preferredLanguages"})


@dataclasses.dataclass(frozen=True, slots=True)
class RegistrationField:
    """A form field, named `user.` and the member of the user that it sets."""

    member: str
    is_required: bool

    @property
    def name(self) -> str:
        """The name of the field."""
        return f"user.{self.member}"


PARENT_EMAIL: Final = RegistrationField("parentEmail", is_required=False)
"""The address of a parent, required of children only."""


def is_enabled(application: Document) -> bool:
    """Whether users may register themselves."""
    return bool(application["registrationConfiguration"]["enabled"])


def is_basic(application: Document) -> bool:
    """Whether users register with the configured fields."""
    return is_enabled(application) and application["registrationConfiguration"]["type"] == "basic"


def uses_form(application: Document) -> bool:
    """Whether users register with a form."""
    return is_enabled(application) and application["registrationConfiguration"]["type"] == "advanced"


def login_id_field(application: Document) -> RegistrationField:
    """Return the field of the new user's login id."""
    return RegistrationField(application["registrationConfiguration"]["loginIdType"], is_required=True)


def profile_fields(application: Document) -> tuple[RegistrationField, ...]:
    """Return the enabled profile fields in the order of the page."""
    configured = application["registrationConfiguration"]
    return tuple(
        RegistrationField(member, configured[member]["required"])
        for member in _PROFILE
        if configured[member]["enabled"]
    )


def page_fields(tenant: Document, application: Document) -> tuple[RegistrationField, ...]:
    """Return all fields of the page except the password, with the parent's email if the tenant requires it."""
    family, configured = tenant["familyConfiguration"], application["registrationConfiguration"]
    needs_parent = family["enabled"] and family["parentEmailRequired"] and configured["birthDate"]["enabled"]
    return (login_id_field(application), *profile_fields(application), *((PARENT_EMAIL,) if needs_parent else ()))


def missing_fields(application: Document, user: Document) -> tuple[RegistrationField, ...]:
    """Return the required profile fields that a user lacks."""
    return tuple(field for field in profile_fields(application) if field.is_required and not user.get(field.member))


def read_values(fields: Sequence[RegistrationField], form: Mapping[str, str]) -> Document:
    """Return the members of a user that a form sets: the configured fields that are not blank."""
    values = ((field.member, form.get(field.name, "").strip()) for field in fields)
    return {member: _split(value) if member in _LISTS else value for member, value in values if value}


def problems(fields: Sequence[RegistrationField], form: Mapping[str, str]) -> list[FieldError]:
    """Return an error for each required field that is blank."""
    return [
        FieldError.missing(field.name, "blank")
        for field in fields
        if field.is_required and not form.get(field.name, "").strip()
    ]


def password_problems(application: Document, form: Mapping[str, str]) -> list[FieldError]:
    """Return an error if the application requires the password twice and the two differ."""
    is_required = application["registrationConfiguration"]["confirmPassword"]
    if not is_required or form.get(CONFIRM, "") == form.get(PASSWORD, ""):
        return []
    return [FieldError.of("doNotMatch", CONFIRM, "The two passwords are not the same.")]


def to_registration_request(
    application: Document, fields: Sequence[RegistrationField], form: Mapping[str, str]
) -> Document:
    """Return the request of the registration API that a form makes."""
    user = {**read_values(fields, form), "password": form.get(PASSWORD, "")}
    return {"user": user, "registration": {"applicationId": application["id"]}}


def _split(value: str) -> list[str]:
    """Return the distinct values of a list field."""
    return list(dict.fromkeys(value.replace(",", " ").split()))
