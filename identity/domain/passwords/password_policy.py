"""The password policy of a tenant (`passwordValidationRules`), and common passwords."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Iterator

from identity.call import Document
from identity.domain.objects import stored_values
from identity.domain.passwords import password_hashing
from identity.errors import FieldError


@dataclasses.dataclass(frozen=True, slots=True)
class PasswordRules:
    """The `passwordValidationRules` of a tenant."""

    min_length: int
    max_length: int
    require_mixed_case: bool
    require_non_alpha: bool
    require_number: bool
    disallow_user_login_id: bool
    remember_previous_passwords: Document
    breach_detection: Document

    @classmethod
    def of(cls, tenant: Document) -> PasswordRules:
        """Return the rules of a tenant."""
        return stored_values.from_document(cls, tenant["passwordValidationRules"])

    @property
    def remembered(self) -> int:
        """The number of passwords, the current one included, that may not be used again; 0 for none."""
        settings = self.remember_previous_passwords
        return int(settings["count"]) if settings["enabled"] else 0


def problems(
    password: str, rules: PasswordRules, path: str, *, scheme: str, login_ids: Iterable[str] = ()
) -> list[FieldError]:
    """Return every violation of the policy, reported on `path`; `login_ids` matter if the policy disallows them."""
    if not password.strip():
        return [FieldError.missing(path, "blank")]
    errors = [FieldError.of(kind, path, message) for kind, message in _violations(password, rules, scheme)]
    if rules.disallow_user_login_id:
        errors += _contained_login_ids(password, path, login_ids)
    return errors


def _violations(password: str, rules: PasswordRules, scheme: str) -> Iterator[tuple[str, str]]:
    maximum = rules.max_length
    bytes_read = password_hashing.maximum_length(scheme)
    if len(password) < rules.min_length:
        yield "tooShort", f"The password must have at least {rules.min_length} characters."
    if len(password) > maximum or (bytes_read is not None and len(password.encode()) > bytes_read):
        yield "tooLong", f"The password must have at most {min(maximum, bytes_read or maximum)} characters."
    if rules.require_mixed_case and (password.lower() == password or password.upper() == password):
        yield "singleCase", "The password must have upper and lower case letters."
    if rules.require_non_alpha and password.isalnum():
        yield "onlyAlpha", "The password must have a character that is neither letter nor digit."
    if rules.require_number and not any(character.isdigit() for character in password):
        yield "requireNumber", "The password must have a digit."


def _contained_login_ids(password: str, path: str, login_ids: Iterable[str]) -> list[FieldError]:
    return [
        FieldError.of(_kind_of(login_id), path, "The password must not contain the login id.")
        for login_id in login_ids
        if login_id and login_id.lower() in password.lower()
    ]


def _kind_of(login_id: str) -> str:
    if "@" in login_id:
        return "containsEmail"
    is_number = login_id.startswith("+") and login_id[1:].isdigit()
    return "containsPhoneNumber" if is_number else "containsUsername"


def is_common(password: str) -> bool:
    """Whether this is a common password, regardless of case.

    A tenant with breach detection rejects them, whatever source of breach data the instance has.
    """
    return password.casefold() in common_passwords()


@functools.cache
def common_passwords() -> frozenset[str]:
    """Return the passwords of `common_passwords.txt`, which are in lower case."""
    return frozenset(pathlib.Path(__file__).with_name("common_passwords.txt").read_text(encoding="utf-8").split())
