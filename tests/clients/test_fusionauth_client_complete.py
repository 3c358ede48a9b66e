"""No method of the official Python client is forgotten: each is called by a test here or belongs to a later work."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

HERE = Path(__file__).resolve().parent

NO_CALLS = """
convert_true_false start start_anonymous
"""

LATER = {
    "not offered: tenant manager": """
    create_tenant_manager_identity_provider_type_configuration
    delete_tenant_manager_identity_provider_type_configuration
    patch_tenant_manager_configuration
    patch_tenant_manager_identity_provider_type_configuration
    retrieve_tenant_manager_configuration
    update_tenant_manager_configuration
    update_tenant_manager_identity_provider_type_configuration
    """,
}


def methods() -> set[str]:
    return {name for name, _ in inspect.getmembers(FusionAuthClient, inspect.isfunction) if not name.startswith("_")}


def called() -> set[str]:
    """Every name that a test of the client asks a client for."""
    files = [file for file in HERE.glob("test_fusionauth_client*.py") if file != Path(__file__).resolve()]
    trees = [ast.parse(file.read_text()) for file in files]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def methods_not_covered() -> set[str]:
    return {name for names in LATER.values() for name in names.split()}


@pytest.mark.requirement("management-2")
def test_every_method_is_called_or_belongs_to_a_later_work() -> None:
    assert methods() - called() - methods_not_covered() - set(NO_CALLS.split()) == set()


def test_nothing_is_put_off_that_is_called_or_that_the_client_does_not_have() -> None:
    assert methods_not_covered() - methods() == set()
    assert methods_not_covered() & called() == set()


def test_nothing_is_put_off_twice() -> None:
    listed = [name for names in LATER.values() for name in names.split()]
    assert len(listed) == len(set(listed))
