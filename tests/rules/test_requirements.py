"""Every requirement of docs/requirements.yaml has a test that is marked with its id, or a reason why it has none."""

from __future__ import annotations

import ast
import collections
import functools
import importlib.util
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from identity import errors
from identity.events.catalogue import EVENTS

ROOT = Path(__file__).resolve().parent.parent.parent


def words(text: str) -> set[str]:
    return set(text.split())


# The values of the published API and of its later releases: errors, and the reasons that refine them.
ERRORS = words("""
    access_denied authorization_pending change_password_required expired_token invalid_client invalid_grant
    invalid_request invalid_scope invalid_token not_licensed server_error two_factor_required unauthorized_client
    unsupported_grant_type unsupported_response_type unsupported_token_type
""")

REASONS = words("""
    access_token_expired access_token_failed_processing access_token_invalid access_token_malformed
    access_token_required access_token_unavailable_for_processing auth_code_not_found
    change_password_administrative change_password_breached change_password_expired change_password_validation
    client_authentication_missing client_id_mismatch consent_canceled grant_type_disabled
    invalid_additional_client_id invalid_client_authentication invalid_client_authentication_scheme
    invalid_client_id invalid_device_code invalid_entity_permission_scope invalid_grant_type invalid_id_token_hint
    invalid_origin invalid_origin_opaque invalid_pkce_code_challenge invalid_pkce_code_challenge_method
    invalid_pkce_code_verifier invalid_post_logout_redirect_uri invalid_redirect_uri invalid_response_mode
    invalid_response_type invalid_target_entity_scope invalid_user_code invalid_user_credentials invalid_user_id
    login_prevented missing_client_id missing_client_secret missing_code missing_code_challenge
    missing_code_verifier missing_device_code missing_grant_type missing_redirect_uri missing_refresh_token
    missing_required_scope missing_response_type missing_token missing_user_code missing_user_id
    missing_verification_uri not_licensed refresh_token_not_found refresh_token_type_not_supported unknown
    unknown_scope user_code_expired user_expired user_locked user_not_found

    authentication_required consent_required email_verification_required id_token_invalid interaction_required
    invalid_expires_in invalid_prompt invalid_tenant_id missing_tenant_id multi_factor_challenge_required
    registration_missing_requirement registration_required registration_verification_required
""")

# The folders of the tests that send requests to the service.
REQUEST_TESTS = {"api", "clients", "federation", "hosted", "oauth2"}


@functools.cache
def generator() -> ModuleType:
    """Load docs/requirements.py."""
    spec = importlib.util.spec_from_file_location("requirements", ROOT / "docs" / "requirements.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return module


@functools.cache
def requirements() -> dict[str, Any]:
    """Return the requirements by their ids."""
    return {requirement.id: requirement for section in generator().sections() for requirement in section.requirements}


@functools.cache
def marked_tests() -> dict[str, list[str]]:
    """Return the tests by the ids of their requirements; parsing all tests takes seconds."""
    found: dict[str, list[str]] = generator().marked_tests()
    return found


def values(prefix: str) -> set[str]:
    """Return what follows a prefix of ids."""
    return {name.removeprefix(prefix) for name in requirements() if name.startswith(prefix)}


def test_ids_are_unique() -> None:
    listed = [requirement.id for section in generator().sections() for requirement in section.requirements]
    assert [name for name, count in collections.Counter(listed).items() if count > 1] == []


def test_ids_can_be_written_in_a_mark() -> None:
    assert [name for name in requirements() if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name)] == []


def test_every_requirement_is_a_sentence() -> None:
    texts = [text for row in requirements().values() for text in (row.text, row.reason) if text is not None]
    assert [text for text in texts if not text.strip().endswith(".") or "\n" in text] == []


def test_every_marked_requirement_exists() -> None:
    assert {name: tests for name, tests in marked_tests().items() if name not in requirements()} == {}


def test_marks_are_only_on_collected_tests_and_name_literal_ids() -> None:
    """Marks elsewhere, such as on a class or made of a variable, would not be counted."""
    files = [file for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__)]
    written = sum(file.read_text().count("mark.requirement") for file in files)
    counted = sum(
        ast.unparse(decorator).startswith(generator().MARK)
        for file in files
        if file.name.startswith("test_")
        for function in generator().functions(file)
        for decorator in function.decorator_list
    )
    assert written == counted


def test_every_requirement_has_a_test_or_a_reason() -> None:
    assert [name for name, row in requirements().items() if name not in marked_tests() and not row.reason] == []


def test_no_requirement_has_both_a_test_and_a_reason() -> None:
    assert [name for name, row in requirements().items() if name in marked_tests() and row.reason] == []


@pytest.mark.parametrize("number", range(1, 72))
def test_every_attack_has_a_requirement(number: int) -> None:
    assert f"attack-{number}" in requirements()


def test_every_event_type_has_a_requirement_with_a_test() -> None:
    rows = [row for name, row in requirements().items() if name.startswith("event-") and name in marked_tests()]
    named = {word for row in rows for word in re.findall(r"`([a-zA-Z.-]+)`", row.text)}
    assert EVENTS.keys() - named == set()


def test_every_error_and_reason_has_a_requirement() -> None:
    ours = {one.error for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.OAuth2Error)}
    assert values("error-") == ERRORS | ours
    assert values("reason-") == REASONS


def test_a_test_of_each_error_finds_it_in_a_response() -> None:
    """The source of a marked test that sends requests contains the value, or a constant of its file does."""
    for prefix, value in error_values():
        tests = marked_tests().get(f"{prefix}{value}", ())
        assert all(test.split("/")[1] in REQUEST_TESTS for test in tests), value
        if tests:
            assert any(value in texts_of_tests()[test] for test in tests), value


def test_errors_without_a_request_are_raised_nowhere() -> None:
    # interaction_required is an error, too, and is raised as one.
    never = [
        value
        for prefix, value in error_values()
        if f"{prefix}{value}" not in marked_tests() and value not in values("error-")
    ]
    assert len(never) > 2
    raised, patterns = texts_of_modules()
    assert [value for value in never if value in raised or any(one.fullmatch(value) for one in patterns)] == []


def error_values() -> Iterator[tuple[str, str]]:
    return itertools.chain(*(((prefix, value) for value in sorted(values(prefix))) for prefix in ("error-", "reason-")))


@functools.cache
def texts_of_tests() -> dict[str, frozenset[str]]:
    """Map each test to the texts in its source, and in the constants of its file that it names."""
    found = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        constants = texts_of_constants(generator().module(file))
        for function in generator().functions(file):
            nodes = list(ast.walk(function))
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            parts = [texts(nodes), *(constants[name] for name in names & constants.keys())]
            found[f"{file.relative_to(ROOT)}::{function.name}"] = frozenset().union(*parts)
    return found


def texts_of_constants(module: ast.Module) -> dict[str, frozenset[str]]:
    return {
        target.id: texts(ast.walk(node.value))
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def texts(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def texts_of_modules() -> tuple[set[str], list[re.Pattern[str]]]:
    """Return all texts in the modules, and a pattern for each f-string that can produce one."""
    found: set[str] = set()
    patterns: list[re.Pattern[str]] = []
    for file in (ROOT / "identity").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        found |= texts(nodes)
        made = (pattern(node) for node in nodes if isinstance(node, ast.JoinedStr))
        patterns += [one for one in made if one is not None]
    return found, patterns


def pattern(text: ast.JoinedStr) -> re.Pattern[str] | None:
    """Return a pattern for an f-string that starts with a word, such as `missing_{name}`."""
    first = text.values[0]
    if not isinstance(first, ast.Constant) or not re.fullmatch(r"[a-z]+[a-zA-Z._-]*[._]", str(first.value)):
        return None
    parts = (re.escape(str(part.value)) if isinstance(part, ast.Constant) else "[a-z]+" for part in text.values)
    return re.compile("".join(parts))
