"""Every write of a user passes the guard of the request (decision 74)."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent.parent
STORE = ROOT / "identity" / "store" / "users.py"

UNGUARDED: Final = {
    "record_login": "of a completed login",
    "rehash_password": "the same password, at a login",
    "record_second_factor": "of a completed login",
    "consume_recovery_code": "by the user, at a login",
    "update_unless_password_changed": "what a login found out about its password",
    "remove_registrations": "of a deleted application, which the operation protects",
    "remove_imported": "undoes an import of users that were checked",
    "insert_encoded": "of users that `encode` checked",
    "remove_parent_emails": "the address of a deleted parent, which gives no authority",
    "add_memberships": "operations/groups requires authority over the groups and the members",
    "remove_memberships": "operations/groups requires authority over the groups and the members",
    "remove_all_memberships": "operations/groups requires authority over the groups",
}
"""Methods that write users without a check -> why none is needed."""
INHERITED: Final = {"insert", "replace", "delete"}
"""Methods of Documents that Users overrides with a check; `update` and `delete_in_chunks` have the callers below."""
BULK_CALLS: Final = {
    "operations/configuration/tenants.py": {"delete_in_chunks"},
    "operations/users/families.py": {"update"},
}
LIFTED: Final = {
    "identity/operations/authorization/just_in_time_registration.py",
    "identity/operations/login/failed_login_lockout.py",
}
_WRITES: Final = {
    "_update_one", "insert_many", "delete_one", "delete_many", "bulk_write", "update_many", "update_in_chunks",
    "insert_one", "replace_one", "_encode_in_place",
}  # fmt: skip
_BULK: Final = {"update", "delete_all", "delete_in_chunks", "update_in_chunks"}
_CHECKS: Final = {"_check", "check"}


def methods() -> dict[str, set[str]]:
    """Return the names that each method of the store of users calls."""
    tree = ast.parse(STORE.read_text())
    (users,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Users"]
    found = {}
    for method in users.body:
        if isinstance(method, ast.AsyncFunctionDef | ast.FunctionDef):
            calls = [node.func for node in ast.walk(method) if isinstance(node, ast.Call)]
            names = {call.attr for call in calls if isinstance(call, ast.Attribute)}
            found[method.name] = names | {call.id for call in calls if isinstance(call, ast.Name)}
    return found


def test_every_method_that_writes_users_presents_the_write_to_the_guard() -> None:
    unchecked = {name for name, calls in methods().items() if calls & _WRITES and not calls & _CHECKS}
    assert unchecked == set(UNGUARDED)
    assert {name for name in INHERITED if not methods()[name] & _CHECKS} == set()


def test_bulk_writes_of_users_are_those_listed() -> None:
    found: dict[str, set[str]] = {}
    for file in (ROOT / "identity").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            is_bulk = isinstance(node, ast.Attribute) and node.attr in _BULK
            if is_bulk and ast.unparse(node.value).endswith("directory.users"):
                found.setdefault(str(file.relative_to(ROOT / "identity")), set()).add(node.attr)
    assert found == BULK_CALLS


def test_the_guard_is_lifted_for_acts_of_the_service_only() -> None:
    found = {str(file.relative_to(ROOT)) for file in (ROOT / "identity").rglob("*.py")
             if "write_guard.lifted()" in file.read_text()}  # fmt: skip
    assert found == LIFTED
