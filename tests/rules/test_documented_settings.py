"""Every setting that the documents name exists: members of tenants and applications, and settings of the operator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import ROOT

Schema = dict[str, Any]

DOCUMENTS = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent.name != "decisions"),
]
CONFIGURATION: Schema = json.loads((ROOT / "schemas" / "config.json").read_text())
OBJECTS: Schema = {
    name: json.loads((ROOT / "schemas" / "api" / f"{name}.json").read_text())["properties"][name]
    for name in ("application", "tenant")
}
_NO_SETTINGS = {
    "kickstart.success",
    "kickstart.yaml",
    *(f"console.{level}" for level in ("debug", "error", "info", "log", "warn")),
}
"""An event, a file, and functions of lambdas."""
_NAME = re.compile(r"`([a-z_]\w*(?:\.[A-Za-z_]\w*)+)`")


def named(text: str) -> Iterator[str]:
    """The settings that a document names with their full path."""
    for name in _NAME.findall(text):
        root = name.partition(".")[0]
        if root in OBJECTS or (root in CONFIGURATION["properties"] and name.islower() and name not in _NO_SETTINGS):
            yield name


def exists(name: str) -> bool:
    root, *path = name.split(".")
    return has(OBJECTS[root], path) if root in OBJECTS else has(CONFIGURATION, [root, *path])


def has(schema: Schema, path: list[str]) -> bool:
    """Whether a schema has a member; one that declares no members may have any."""
    if not path:
        return True
    inner = [
        *schema.get("allOf", ()),
        *schema.get("anyOf", ()),
        *filter(None, [schema.get("items"), schema.get("then")]),
    ]
    if "properties" not in schema and not inner:
        return schema.get("type") == "object"
    member = schema.get("properties", {}).get(path[0])
    return (member is not None and has(member, path[1:])) or any(has(variant, path) for variant in inner)


@pytest.mark.requirement("audit-c2-documents")
def test_documents_name_only_settings_that_exist() -> None:
    unknown = {(path.name, name) for path in DOCUMENTS for name in named(path.read_text()) if not exists(name)}
    assert unknown == set()


@pytest.mark.parametrize(("text", "found", "is_setting"), [
    ("`tenant.multiFactorConfiguration.loginPolicy`", ["tenant.multiFactorConfiguration.loginPolicy"], True),
    ("`tenant.multiFactorConfiguration.loginRule`", ["tenant.multiFactorConfiguration.loginRule"], False),
    ("`application.passkeys`", ["application.passkeys"], False),
    ("`mutual_tls.base_url`", ["mutual_tls.base_url"], True),
    ("`mutual_tls.alias`", ["mutual_tls.alias"], False),
    ("`user.create`, `data.tenant`", [], None),
])  # fmt: skip
def test_settings_are_found_in_a_document(text: str, found: list[str], is_setting: bool | None) -> None:
    assert list(named(text)) == found
    assert all(exists(name) is is_setting for name in found)
