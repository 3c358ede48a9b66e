"""What users who register themselves are asked for: the fields of an application's `registrationConfiguration`.

A question is a field of the form, under the name that the published pages give it (`user.firstName`). Only what is
asked for is read: a form cannot bring roles, or a birth date that nobody wanted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from identity.call import Document
from identity.domain.users import users
from identity.errors import FieldError

PASSWORD: Final = "user.password"  # noqa: S105 (the name of a field)
CONFIRM: Final = "passwordConfirm"

_PROFILE: Final = (
    "firstName",
    "middleName",
    "lastName",
    "fullName",
    "birthDate",
    "mobilePhone",
    "preferredLanguages",
)
_LISTS: Final = frozenset({"preferredLanguages"})


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """One field: `user.` and the member of the user that it fills."""

    member: str
    is_required: bool

    @property
    def name(self) -> str:
        """The name of the field."""
        return f"user.{self.member}"


PARENT: Final = Question("parentEmail", is_required=False)
"""The address of a parent, which only children have to give."""


def is_offered(application: Document) -> bool:
    """Whether people may register themselves. One of the type `advanced` is made of forms, and there are none."""
    configured = application["registrationConfiguration"]
    return bool(configured["enabled"]) and configured["type"] == "basic"


def login_id_of(application: Document) -> Question:
    """What the new user will log in with."""
    return Question(application["registrationConfiguration"]["loginIdType"], is_required=True)


def profile_of(application: Document) -> tuple[Question, ...]:
    """What else is asked for, in the order of the page."""
    configured = application["registrationConfiguration"]
    return tuple(
        Question(member, configured[member]["required"]) for member in _PROFILE if configured[member]["enabled"]
    )


def questions_of(tenant: Document, application: Document) -> tuple[Question, ...]:
    """All that the page asks for but the password; whose parents have to be known can name one."""
    family, configured = tenant["familyConfiguration"], application["registrationConfiguration"]
    asks_for_parent = family["enabled"] and family["parentEmailRequired"] and configured["birthDate"]["enabled"]
    return (login_id_of(application), *profile_of(application), *((PARENT,) if asks_for_parent else ()))


def lacking(application: Document, user: Document) -> tuple[Question, ...]:
    """The required questions to which a user gave no answer so far."""
    return tuple(asked for asked in profile_of(application) if asked.is_required and not user.get(asked.member))


def answers(questions: Sequence[Question], form: Mapping[str, str]) -> Document:
    """The members of a user that a form fills: of the fields that were asked for, those that are not blank."""
    given = ((asked.member, form.get(asked.name, "").strip()) for asked in questions)
    return {member: _separate(value) if member in _LISTS else value for member, value in given if value}


def problems(questions: Sequence[Question], form: Mapping[str, str]) -> list[FieldError]:
    """The required fields that are blank."""
    return [
        FieldError.of("blank", asked.name, f"You must specify the [{asked.name}] property.")
        for asked in questions
        if asked.is_required and not form.get(asked.name, "").strip()
    ]


def password_problems(application: Document, form: Mapping[str, str]) -> list[FieldError]:
    """A password that was not typed twice the same, where that is asked for."""
    is_asked = application["registrationConfiguration"]["confirmPassword"]
    if not is_asked or form.get(CONFIRM, "") == form.get(PASSWORD, ""):
        return []
    return [FieldError.of("doNotMatch", CONFIRM, "The two passwords are not the same.")]


def registration_body(application: Document, questions: Sequence[Question], form: Mapping[str, str]) -> Document:
    """The request of the registration API that a form stands for."""
    user = {**answers(questions, form), "password": form.get(PASSWORD, "")}
    return {"user": user, "registration": {"applicationId": application["id"]}}


def login_id(application: Document, form: Mapping[str, str]) -> str:
    """The login id that a form asks for, as it is compared."""
    return users.login_key(form.get(login_id_of(application).name, ""))


def _separate(value: str) -> list[str]:
    """The values of a repeated field, each once."""
    return list(dict.fromkeys(value.replace(",", " ").split()))
