"""The dependency rule, as far as packages of others go: each has one room (import-linter states the rest)."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = {
    "motor": ("identity/store",),
    "pymongo": ("identity/store",),
    "bson": ("identity/store",),
    "redis": ("identity/store",),
    "jose": ("identity/tokens",),
    "aiosmtplib": ("identity/outbound",),
    "aiodns": ("identity/outbound",),
    "pycares": ("identity/outbound",),
    "pycurl": ("identity/outbound",),
    "opentelemetry": ("identity/outbound",),
    "sansldap": ("identity/outbound",),
    "quickjs": ("identity/sandbox",),
    "re2": ("identity/domain/forms",),
    "scim2_models": ("identity/domain/scim",),
    "webauthn": ("identity/domain/webauthn",),
    "tornado": ("identity/web", "identity/app.py"),
}


@functools.cache
def imports(file: Path) -> frozenset[str]:
    """The modules that a file imports."""
    return frozenset(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.requirement("design-core-2", "project-1")
@pytest.mark.parametrize("package", ROOMS)
def test_a_package_is_used_in_its_room_only(package):
    users = [
        str(file.relative_to(ROOT))
        for file in [ROOT / "run.py", *(ROOT / "identity").rglob("*.py")]
        if any(name.split(".")[0] == package for name in imports(file))
    ]
    assert users, f"no module uses {package}: take it off the list"
    assert [user for user in users if not user.startswith(ROOMS[package])] == []


@pytest.mark.requirement("project-1")
def test_only_the_command_line_imports_the_composition_root():
    files = [
        file for file in (ROOT / "identity").rglob("*.py") if "cli" not in file.relative_to(ROOT / "identity").parts
    ]
    users = [file for file in files if "identity.app" in imports(file)]
    assert users == []


@pytest.mark.requirement("project-1")
def test_every_package_has_its_init_file():
    folders = {file.parent for file in (ROOT / "identity").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
