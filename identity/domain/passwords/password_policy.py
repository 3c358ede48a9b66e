"""The password policy of a tenant (`passwordValidationRules`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from identity.call import Document
from identity.domain.passwords import password_hashing
from identity.errors import FieldError


def problems(
    password: str, rules: Document, path: str, *, scheme: str, login_ids: Iterable[str] = ()
) -> list[FieldError]:
    """Return every violation of the policy, reported on `path`; `login_ids` matter if the policy disallows them."""
    if not password.strip():
        return [FieldError.of("blank", path, f"You must specify the [{path}] property.")]
    errors = [FieldError.of(kind, path, message) for kind, message in _violations(password, rules, scheme)]
    if rules["disallowUserLoginId"]:
        errors += _contained_login_ids(password, path, login_ids)
    return errors


def _violations(password: str, rules: Document, scheme: str) -> Iterator[tuple[str, str]]:
    maximum = rules["maxLength"]
    bytes_read = password_hashing.maximum_length(scheme)
    if len(password) < rules["minLength"]:
        yield "tooShort", f"The password must have at least {rules['minLength']} characters."
    if len(password) > maximum or (bytes_read is not None and len(password.encode()) > bytes_read):
        yield "tooLong", f"The password must have at most {min(maximum, bytes_read or maximum)} characters."
    if rules["requireMixedCase"] and (password.lower() == password or password.upper() == password):
        yield "singleCase", "The password must have upper and lower case letters."
    if rules["requireNonAlpha"] and password.isalnum():
        yield "onlyAlpha", "The password must have a character that is neither letter nor digit."
    if rules["requireNumber"] and not any(character.isdigit() for character in password):
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
