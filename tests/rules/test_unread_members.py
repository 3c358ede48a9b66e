"""Every member of a request is read by code, or docs/unread-members.md says why it is only stored.

A member counts as read where a module reads its name and names its parent: `tenant["issuer"]`, or
`settings["accessToken"]["enabled"]`, in any spelling that the code uses, such as a path in a data file, a field of a
typed view, or a template. A name that is only written, as a key of a dict, does not count.
"""

from __future__ import annotations

import ast
import dataclasses
import fnmatch
import functools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from identity import schemas

ROOT = Path(__file__).resolve().parent.parent.parent
CODE = ROOT / "identity"
TABLE = ROOT / "docs" / "unread-members.md"

NO_USE = (
    "cli/*",
    "domain/configuration/feature_settings.yaml",
    "domain/lambdas/lambda_types.yaml",
    "domain/objects/secret_masking.*",
    "domain/providers/identity_provider_types.yaml",
    "operations/objects/references.*",
    "web/console/*",
    "web/openapi/*",
)
"""Files below identity/ that name members without making use of them: validation, forms, documentation."""

ALIASES = {"identityProvider": "provider"}
"""The names that code gives to objects."""

Document = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What a file says: the names that it reads, patterns of names that it builds, and all its words in lower case."""

    reads: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    text: str

    def reads_name(self, name: str) -> bool:
        return name in self.reads or any(pattern.fullmatch(name) for pattern in self.patterns)

    def names(self, parent: str) -> bool:
        """Whether the file names the parent of a member, in any spelling."""
        spelling = ALIASES.get(parent, parent).lower().replace("_", "").removesuffix("configuration").removesuffix("s")
        return spelling in self.text or any(pattern.fullmatch(parent) for pattern in self.patterns)


def words(text: str) -> set[str]:
    """The names in a path such as `lambdaConfiguration.loginValidationId`."""
    return {word for word in re.split(r"[./\[\]{}, ]", text) if re.fullmatch(r"[A-Za-z_]\w*", word)}


def camel(name: str) -> str:
    first, *others = name.strip("_").split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def written(tree: ast.Module) -> set[int]:
    """The strings that write a member, and docstrings. A dict of a module is a table, whose keys are reads."""
    tables = {id(node.value) for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)}
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and id(node) not in tables:
            found |= {id(key) for key in node.keys}
        elif isinstance(node, ast.Assign):
            found |= {id(target.slice) for target in node.targets if isinstance(target, ast.Subscript)}
        elif isinstance(node, ast.Expr):
            found.add(id(node.value))
    return found


def of_python(source: str, place: str = "") -> Evidence:
    """Strings are reads except where they write; so are the fields of dataclasses that are read from a document."""
    tree, reads, patterns = ast.parse(source), set(), []
    writes, has_views = written(tree), "from_document" in source
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in writes:
            reads |= words(node.value)
        elif isinstance(node, ast.ClassDef) and has_views:
            targets = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
            reads |= {camel(target.id) for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.JoinedStr):
            parts = [re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w+" for p in node.values]
            if sum(len(part) for part in parts if part != r"\w+") >= 8:
                patterns.append(re.compile("".join(parts)))
    return Evidence(frozenset(reads), tuple(patterns), f"{place} {source}".lower().replace("_", ""))


def of_text(text: str, place: str = "") -> Evidence:
    """Every name in a data file, template or script."""
    return Evidence(frozenset(re.findall(r"[A-Za-z_]\w*", text)), (), f"{place} {text}".lower().replace("_", ""))


@functools.cache
def evidence() -> dict[Path, Evidence]:
    return {
        file: (of_python if file.suffix == ".py" else of_text)(file.read_text(), str(file.relative_to(CODE)))
        for file in CODE.rglob("*")
        if file.suffix in {".py", ".yaml", ".html", ".txt", ".js"}
        and not any(fnmatch.fnmatch(file.relative_to(CODE).as_posix(), pattern) for pattern in NO_USE)
    }


ANSWERS = {"api/webhook-attempt-log.json", "api/webhook-event-log.json"}
"""Schemas of what the service alone writes."""

WRAPPERS = {"criteria", "search"}
"""Objects that a request wraps its members in, which code opens at one place for all requests."""


def members(node: Document, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the members that a caller may send; a name with dots, as in forms, is a path itself."""
    for name, child in node.get("properties", {}).items():
        if not child.get("readOnly", False):
            inside = (*path, *name.split("."))
            yield inside
            yield from members(child, inside)
    for child in [node.get("items"), *node.get("oneOf", []), *node.get("anyOf", [])]:
        if isinstance(child, dict):
            yield from members(child, path)


def of_requests(folder: Path) -> dict[str, list[tuple[str, ...]]]:
    """The members of every request, by file."""
    files = {file.relative_to(folder).as_posix() for kind in ("api", "oauth2") for file in (folder / kind).glob("*")}
    requests = sorted(name for name in files - ANSWERS if not name.endswith(".response.json"))
    return {name: list(members(schemas.load(name, folder))) for name in requests}


def is_read(path: tuple[str, ...]) -> bool:
    parent, name = ("" if len(path) == 1 else path[-2]), path[-1]
    parent = "" if parent in WRAPPERS else parent
    return any(found.reads_name(name) and found.names(parent) for found in evidence().values())


def unread(folder: Path = ROOT / "schemas") -> set[str]:
    """The members that no code reads: `api/tenant.json tenant.familyConfiguration.deleteOrphanedAccounts`."""
    found = of_requests(folder)
    return {f"{file} {'.'.join(path)}" for file, paths in found.items() for path in paths if not is_read(path)}


def rows() -> dict[str, str]:
    """The table of the document: the pattern of the members, and the reason."""
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", TABLE.read_text(), re.MULTILINE))


def explained(member: str) -> list[str]:
    return [pattern for pattern in rows() if fnmatch.fnmatchcase(member, pattern)]


def test_unread_members_are_explained() -> None:
    assert sorted(member for member in unread() if not explained(member)) == []


def test_every_row_explains_a_member() -> None:
    found = unread()
    assert [pattern for pattern in rows() if not fnmatch.filter(found, pattern)] == []
    assert all(len(reason) > 10 for reason in rows().values())


@pytest.mark.parametrize(
    ("file", "at", "name"),
    [
        ("api/tenant.json", ("tenant", "multiFactorConfiguration"), "gracePeriodInDays"),
        ("api/tenant.json", ("tenant", "familyConfiguration"), "enabledSince"),
        ("api/application.json", ("application",), "brandColor"),
        ("oauth2/token.request.json", (), "audience_hint"),
        # The name is read, but not of this object.
        ("api/application.json", ("application", "multiFactorConfiguration"), "pushedAuthorizationRequestTtl"),
        ("api/messenger.json", ("messenger",), "familyRole"),
    ],
)
def test_new_member_that_no_code_reads_is_found(tmp_path: Path, file: str, at: tuple[str, ...], name: str) -> None:
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    changed = tmp_path / "schemas" / file
    schema = json.loads(changed.read_text())
    node = schema
    for step in at:
        node = node["properties"][step]
    node["properties"][name] = {"type": "string", "description": "New."}
    changed.write_text(json.dumps(schema))
    new = unread(tmp_path / "schemas") - unread()
    assert f"{file} {'.'.join((*at, name))}" in new
    assert all(member.endswith(name) for member in new)


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ('x = tenant["issuer"]', {"issuer"}),
        ('x = tenant.get("issuer")', {"issuer"}),
        ('if "issuer" in tenant: pass', {"issuer"}),
        ('PATHS = ("jwtConfiguration.enabled",)', {"jwtConfiguration", "enabled"}),
        ('TABLE = {"issuer": 1}', {"issuer"}),
        ('def f(): return {"issuer": 1}', set()),
        ('def f(tenant): tenant["issuer"] = 1', set()),
        ('"""The issuer."""', set()),
    ],
)
def test_reading_differs_from_writing(source: str, reads: set[str]) -> None:
    assert of_python(source).reads == reads
