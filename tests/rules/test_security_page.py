"""SECURITY.md and docs/security.md: current permissions, every role, and settings and files that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from identity import config, permissions
from identity.domain.configuration import administrator_roles

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()
POLICY = (ROOT / "SECURITY.md").read_text()


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("role_permissions", ROOT / "docs" / "role_permissions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.requirement("deploy-security")
def test_table_of_roles_is_up_to_date(generator):
    assert generator.page() == PAGE, "run: make docs"


@pytest.mark.requirement("deploy-security")
def test_table_has_every_endpoint_once(generator):
    prefixes, named = set(), []
    for row in generator.table().splitlines()[2:]:
        cell = row.split("|")[1]
        names = re.findall(r"`([^`]+)`", cell)
        (prefixes if len(names) == 1 and names[0].count("/") == 2 else set()).update(names)
        named += names
    assert len(named) == len(set(named))
    assert {endpoint for endpoint in permissions.ENDPOINTS if endpoint not in named} <= {
        endpoint for endpoint in permissions.ENDPOINTS if any(endpoint.startswith(f"{each}/") for each in prefixes)
    }


@pytest.mark.requirement("deploy-security")
@pytest.mark.parametrize(
    ("role", "endpoint", "method", "may"),
    [
        ("user-manager", "/api/user/import", "POST", True),
        ("user-manager", "/api/application", "PUT", False),
        ("developer", "/api/identity-provider", "POST", True),
        ("developer", "/api/user", "GET", False),
        ("auditor", "/api/user/search", "POST", True),
        ("auditor", "/api/two-factor/secret", "GET", False),
    ],
)
def test_cells_of_the_table_say_what_the_roles_may(generator, role, endpoint, method, may):
    head, _, *rows = [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in generator.table().splitlines()]
    (row,) = [row for row in rows if endpoint in re.split("`, `", row[0]) or endpoint.startswith(f"{row[0]}/")]
    cell = row[head.index(role)]
    reading = "GET" if not endpoint.endswith("/search") else "GET POST"
    assert ({"all": True, "reads": method in reading, "-": False}[cell]) is may


@pytest.mark.requirement("deploy-security")
def test_every_role_is_described():
    assert {role for role in administrator_roles.DESCRIPTIONS if f"`{role}`" not in PAGE} == set()


@pytest.mark.requirement("deploy-security")
def test_settings_and_decisions_that_the_page_names_exist():
    settings = {key for key, _ in config.settings()}
    sections = {key.partition(".")[0] for key in settings}
    named = {name for name in re.findall(r"`([a-z_]+\.[a-z_]+)`", PAGE) if name.partition(".")[0] in sections}
    assert {"server.base_url", "server.trusted_proxies"} <= named <= settings
    assert {"0073", "0074"} <= set(re.findall(r"\]\(decisions/(\d{4})-", PAGE))
    assert "```mermaid" in PAGE


@pytest.mark.requirement("deploy-security")
def test_policy_says_how_to_report_privately_and_names_no_mail_address():
    assert "Report a vulnerability" in POLICY
    assert not re.search(r"\S@\S|mailto:", POLICY)
    assert "](docs/security.md)" in POLICY


@pytest.mark.requirement("deploy-security")
@pytest.mark.parametrize(
    ("file", "link"),
    [
        ("README.md", "](docs/security.md)"),
        ("README.md", "](SECURITY.md)"),
        ("docs/index.md", "](security.md)"),
        ("mkdocs.yml", "- security.md"),
        ("docs/security.md", "](../SECURITY.md)"),
    ],
)
def test_pages_of_security_are_linked(file, link):
    assert link in (ROOT / file).read_text()
