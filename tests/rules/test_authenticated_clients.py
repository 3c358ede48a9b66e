"""A grant for a client that is not authenticated is impossible: no grant is given one, and nothing else makes one."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import identity
from identity.operations import grants
from identity.operations.api import introspection, revocation
from identity.operations.authorization import device_authorization, device_codes, pushed_requests

AUTHENTICATION = "operations/clients/client_authentication.py"
ENTITY_AUTHENTICATION = "operations/entities/entity_clients.py"
PACKAGE = Path(identity.__file__).parent
AUTHENTICATED = {"AuthenticatedClient", "EntityClient"}


def constructions(name: str) -> Iterator[str]:
    """Yield the modules that construct a type."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if f"{name}(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
                yield str(path.relative_to(PACKAGE))


def test_only_authentication_makes_authenticated_clients() -> None:
    assert set(constructions("AuthenticatedClient")) == {AUTHENTICATION}
    assert set(constructions("EntityClient")) == {ENTITY_AUTHENTICATION}


def client_types(function: object) -> set[str]:
    """The types of the client that a function takes."""
    parameter = list(inspect.signature(function).parameters.values())[2]
    return {name.strip() for name in str(parameter.annotation).split("|")}


@pytest.mark.parametrize("module", grants.GRANTS.values(), ids=grants.GRANTS)
def test_grants_take_authenticated_clients_only(module: ModuleType) -> None:
    assert client_types(module.exchange) <= AUTHENTICATED


@pytest.mark.parametrize(
    "operation",
    [
        introspection.introspect,
        revocation.revoke,
        pushed_requests.push,
        device_authorization.begin,
        device_codes.describe_for_client,
        device_codes.approve,
    ],
    ids=lambda operation: operation.__name__,
)
def test_endpoints_of_clients_take_authenticated_clients_only(operation: object) -> None:
    assert client_types(operation) <= AUTHENTICATED
