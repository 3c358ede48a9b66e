"""The examples of the documents: one name per shell variable, and only tools and versions that a reader can have."""

from __future__ import annotations

import re

import pytest

from tests import shell
from tests.conftest import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = {document: "\n".join(shell.blocks(document)) for document in DOCUMENTS}
FROM_OAUTH = "oauth.md#the-examples"
READER_S = {"user_id", "tenant_id", "two_factor_id", "code", "client_id"}
"""What an example leaves to the reader, and the text around it names."""


def variables(text: str) -> set[str]:
    """The shell variables that examples read, but for those of JavaScript and of templates."""
    return set(re.findall(r"\$([A-Za-z_]\w*)", text))


def assigned(text: str) -> set[str]:
    return set(re.findall(r"(?:^|[\s;])([A-Za-z_]\w*)=", text))


def exported(text: str) -> set[str]:
    return {name for line in re.findall(r"^export (.+)$", text, re.MULTILINE) for name in assigned(line)}


@pytest.mark.requirement("audit-c2-documents")
@pytest.mark.parametrize("document", [each for each in DOCUMENTS if BLOCKS[each]], ids=lambda each: each.name)
def test_variables_of_examples_have_one_name_each(document):
    """Lower case, and set in the document, in the one that it refers to, or by the reader as the text says.

    Those that programs read from their environment are exported, in upper case.
    """
    text = document.read_text()
    found = variables(BLOCKS[document])
    assert {name for name in found if not name.islower()} <= exported(BLOCKS[document])
    known = assigned(BLOCKS[document])
    if FROM_OAUTH in text or document.parent.name == "oauth":
        known |= assigned(BLOCKS[ROOT / "docs" / "oauth.md"])
    for name in found - known:
        assert name in READER_S
        assert f"`{name}`" in text or document.name == "two-factor.md", name


@pytest.mark.requirement("audit-c2-documents")
def test_the_same_thing_has_the_same_name_everywhere():
    """What the examples assign from the same source, under one name."""
    names: dict[str, set[str]] = {}
    for text in BLOCKS.values():
        for name, value in re.findall(r"(?:^|\s)([a-z_]+)=(\$\(secret '[^']+'\)|http://localhost:\d+\S*)", text):
            names.setdefault(value, set()).add(name)
    issuer = names.pop("http://localhost:9011", set())
    assert issuer == {"base"}
    assert {value: found for value, found in names.items() if len(found) > 1} == {}


@pytest.mark.requirement("audit-c2-documents")
def test_tools_that_are_no_part_of_debian_are_named_with_their_packages():
    for document, text in BLOCKS.items():
        for tool in ("oathtool", "jq"):
            if re.search(rf"\b{tool} ", text):
                assert re.search(rf"apt-get install [^`\n]*\b{tool}\b", document.read_text()), (document.name, tool)


@pytest.mark.requirement("audit-c2-documents")
def test_no_document_checks_out_a_version_that_does_not_exist():
    for document in DOCUMENTS:
        assert not re.search(r"git checkout v\d", document.read_text()), document.name


@pytest.mark.requirement("audit-c2-documents")
def test_the_first_token_is_one_for_email_and_profile():
    assert BLOCKS[ROOT / "README.md"].count("'scope=openid email profile offline_access'") == 2
