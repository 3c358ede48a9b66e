"""Writes docs/coverage-tables.md: what can be read off the code itself about what is implemented and tested.

    PYTHONPATH=. python docs/coverage_tables.py > docs/coverage-tables.md

A module raises every value that it holds as a text or can make with an f-string; a test asserts every value that it, or
a constant of its file that it names, holds as a text. Only the first few of each are named, so that one more test does
not change the file. tests/rules/test_coverage.py keeps it from going stale.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import prometheus_client

from identity.events.catalogue import EVENTS
from identity.permissions import endpoint_of
from identity.web import application

ROOT = Path(__file__).resolve().parent.parent


def _words(text: str) -> list[str]:
    return text.split()


ERRORS = _words("""
access_denied authorization_pending change_password_required expired_token invalid_client invalid_grant
invalid_request invalid_scope invalid_token not_licensed server_error two_factor_required unauthorized_client
unsupported_grant_type unsupported_response_type unsupported_token_type
""")

REASONS = _words("""
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
""")

LATER_REASONS = _words("""
authentication_required consent_required email_verification_required id_token_invalid interaction_required
invalid_expires_in invalid_prompt invalid_tenant_id missing_tenant_id multi_factor_challenge_required
registration_missing_requirement registration_required registration_verification_required
""")

CODES = _words("""
InvalidTenantId NotLicensed TenantIdRequired TooLarge Unavailable UnsupportedContentType
WebhookTransactionException invalid invalidJSON invalidPatch missing
""")

_SHOWN = 2
_ANY, _COMPLETE = "*", ".complete"
_EVERY_COMPLETE = re.compile(re.escape(_ANY + _COMPLETE))
# The module of identity/operations that tells `x` and `x.complete` for those who use it.
_TELLS_BOTH = "object_events"


def main() -> None:
    """Print the tables."""
    print(tables(), end="")


def tables() -> str:
    """The whole file."""
    code, tests = code_index(), test_index()
    errors = [place for place in code if place.name == "`identity/errors.py`"]
    emitted = [place for place in code if place.name != "`identity/events/catalogue.py`"]
    head = ("Raised in", "Tested by")
    return "\n".join(
        [
            "# What the code itself says\n",
            "Written by `make docs`; do not edit. [coverage.md](coverage.md) beside it is written by hand.\n",
            _table("Routes", ("Path", "Methods", "Access", "Permission"), _routes()),
            _table("`error` values of the contract", ("error", *head), _rows(ERRORS, errors, tests)),
            _table("`error_reason` values of the contract", ("error_reason", *head), _rows(REASONS, code, tests)),
            _table(
                "`error_reason` values of later releases", ("error_reason", *head), _rows(LATER_REASONS, code, tests)
            ),
            _table("Events", ("Event", "Emitted in", "Tested by"), _rows(EVENTS, emitted, tests)),
            _table(
                "General codes of the Errors JSON", ("Code", *head), _rows((f"[{name}]" for name in CODES), code, tests)
            ),
        ]
    )


@dataclasses.dataclass(frozen=True)
class Place:
    """A module or a test, and the texts that it holds; `patterns` are those of f-strings."""

    name: str
    texts: frozenset[str]
    patterns: tuple[re.Pattern[str], ...] = ()

    def holds(self, value: str) -> bool:
        """Whether it speaks of a value; `x.complete` is told after `x` by who says so of everything it tells."""
        base = value.removesuffix(_COMPLETE)
        if base != value and any(pattern.fullmatch(_ANY + _COMPLETE) for pattern in self.patterns) and self.holds(base):
            return True
        return value in self.texts or any(pattern.fullmatch(value) for pattern in self.patterns)


@functools.cache
def code_index() -> list[Place]:
    """The modules of identity/."""
    geoip = []
    for file in sorted((ROOT / "identity").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        texts = _texts(nodes)
        found = (_pattern(node, texts) for node in nodes if isinstance(node, ast.JoinedStr))
        patterns = [one for one in found if one is not None]
        if _TELLS_BOTH in _names(nodes):
            patterns.append(_EVERY_COMPLETE)
        geoip.append(Place(f"`{file.relative_to(ROOT)}`", texts, tuple(patterns)))
    return geoip


@functools.cache
def test_index() -> list[Place]:
    """The test functions, each with its decorators and with the constants of its file that it names."""
    geoip = []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        module = ast.parse(file.read_text())
        constants = _constants(module)
        for function in _test_functions(module):
            nodes = list(ast.walk(function))
            texts = [_texts(nodes), *(constants[name] for name in _names(nodes) & constants.keys())]
            geoip.append(Place(f"`{file.relative_to(ROOT)}::{function.name}`", frozenset().union(*texts)))
    return geoip


def _constants(module: ast.Module) -> dict[str, frozenset[str]]:
    """The texts of each constant of a file."""
    assigned = [node for node in module.body if isinstance(node, ast.Assign)]
    return {
        target.id: _texts(ast.walk(node.value))
        for node in assigned
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _test_functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def _texts(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _pattern(text: ast.JoinedStr, own: Iterable[str]) -> re.Pattern[str] | None:
    """What an f-string that begins one word can become: a name in it stands for one of the module's own texts."""
    first = text.values[0]
    if len(text.values) == 2 and isinstance(text.values[1], ast.Constant) and text.values[1].value == _COMPLETE:
        return _EVERY_COMPLETE
    if not isinstance(first, ast.Constant) or not re.fullmatch(r"[a-z]+[a-zA-Z._-]*[._]", str(first.value)):
        return None
    words = "|".join(sorted(re.escape(word) for word in own if word.isalpha()))
    parts = (
        re.escape(str(part.value))
        if isinstance(part, ast.Constant)
        else f"(?:{words})"
        if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)
        else "[a-z]+"
        for part in text.values
    )
    return re.compile("".join(parts))


def _rows(values: Iterable[str], code: Iterable[Place], tests: Iterable[Place]) -> Iterator[tuple[str, ...]]:
    for value in values:
        yield f"`{value}`", _few(code, value), _few(tests, value)


def _few(geoip: Iterable[Place], value: str) -> str:
    holding = (place.name for place in geoip if place.holds(value))
    return "<br>".join(itertools.islice(holding, _SHOWN)) or "not yet"


def _routes() -> Iterator[tuple[str, ...]]:
    for route in application.routes(prometheus_client.CollectorRegistry()):
        declared = {
            method.upper(): getattr(getattr(route.handler, method), "endpoint", None)
            for method in ("get", "post", "put", "patch", "delete")
        }
        by_access: dict[str, list[str]] = collections.defaultdict(list)
        for method, endpoint in declared.items():
            if endpoint is not None:
                by_access[endpoint.access.value].append(method)
        for access, methods in by_access.items():
            permission = f"`{endpoint_of(route.template)}`" if access in {"api-key", "optional-key"} else ""
            yield f"`{route.template}`", " ".join(methods), access, permission


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"## {title}\n", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


if __name__ == "__main__":
    main()
