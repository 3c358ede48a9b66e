"""Every section of docs/webhooks/guarantees.md is complete, what it names exists, and every setting is explained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from identity.schemas import FOLDER

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
GUARANTEES = (DOCS / "webhooks" / "guarantees.md").read_text()
PAGES = [DOCS / "webhooks.md", *sorted((DOCS / "webhooks").glob("*.md"))]
TEXT = "\n".join(page.read_text() for page in PAGES)
SECTIONS = dict(re.findall(r"^## (\d+)\. [^\n]+\n(.*?)(?=^## |\Z)", GUARANTEES, re.MULTILINE | re.DOTALL))


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name).read_text())["properties"]
    return found


def members(properties: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The members of an object and of those inside of it, by their own names."""
    found = dict(properties)
    for child in properties.values():
        found |= members(child.get("properties", {}))
    return found


@pytest.mark.parametrize("number", range(1, 15))
def test_every_guarantee_states_its_purpose_settings_and_metrics(number):
    section = SECTIONS[str(number)]
    for beginning in ("**Guarantee.**", "**Protects against**", "**Configured by**", "**Observed in**"):
        assert f"\n{beginning} " in section, beginning


def test_every_setting_of_webhooks_is_explained():
    for name in schema("config.json")["webhooks"]["properties"]:
        assert f"`{name}" in TEXT or f"webhooks.{name}" in TEXT, name


def test_every_member_of_our_own_is_explained():
    webhook = members(schema("api/webhook.json")["webhook"]["properties"])
    own = {name for name, child in webhook.items() if "(an extension)" in child.get("description", "")}
    assert len(own) > 6
    for name in own:
        assert re.search(rf"`[^`\n]*\b{name}\b", TEXT), name


def test_every_metric_that_is_named_is_in_the_list():
    named = set(re.findall(r"\bidentity_(?:webhook|trace)\w+", GUARANTEES + (DOCS / "webhooks.md").read_text()))
    listed = set(re.findall(r"\bidentity_\w+", (DOCS / "webhooks" / "metrics.md").read_text()))
    assert len(named) > 10
    assert named - listed == set()


def test_every_call_that_is_named_exists():
    routes = (DOCS.parent / "identity" / "web" / "api" / "webhooks.py").read_text()
    known = {"", *re.findall(r"/api/webhook/\{webhook_id\}/([\w-]+)", routes)}
    named = {part or "" for part in re.findall(r"/api/webhook/\{id\}(?:/([\w-]+))?", TEXT)}
    assert len(named) > 5
    assert named <= known
