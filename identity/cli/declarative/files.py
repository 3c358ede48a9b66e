"""The folder of files: one YAML file for each object, in a folder for each kind."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from identity.call import Document
from identity.cli.declarative import documents, secret_references
from identity.cli.declarative.documents import Object
from identity.cli.declarative.kinds import KINDS, Kind
from identity.store import data_dir

_SUFFIX = ".yaml"
_KICKSTART = "kickstart.yaml"
_YAML_SUFFIXES = frozenset({_SUFFIX, ".yml"})


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


class FaultyFilesError(click.ClickException):
    """Files that cannot be used; the message has a line for each fault."""

    exit_code = 1


def write(folder: Path, objects: Iterable[Object], kinds: Iterable[Kind], *, full: bool) -> dict[str, str]:
    """Replace the files of `kinds` by those of the objects; return the values of their secrets by variable."""
    found = list(objects)
    secrets: dict[str, str] = {}
    for kind in kinds:
        mine = [one for one in found if one.kind is kind]
        written = {_file(folder, one, mine) for one in mine}
        for stale in _files(folder, kind):
            if stale not in written:
                stale.unlink()
        for one in mine:
            secrets |= _write(_file(folder, one, mine), one, full=full)
    return secrets


def _write(file: Path, one: Object, *, full: bool) -> dict[str, str]:
    content = documents.comparable(one)
    secrets: dict[str, str] = {}
    for path in documents.secret_paths(one.kind, content):
        name = secret_references.variable(one.kind.name, file.stem, path)
        secrets[name] = str(documents.at(content, path))
        documents.put(content, path, secret_references.reference(name))
    own: Document = {} if one.kind.is_singleton or one.kind.is_grant else {"id": one.id}
    if one.tenant_id is not None:
        own["tenantId"] = one.tenant_id
    shown = content if full else documents.concise(one.kind, content)
    first = {name: shown[name] for name in ("name",) if name in shown}
    rest = {name: shown[name] for name in sorted(shown) if name not in first}
    text = yaml.dump({**first, **own, **rest}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return secrets


def write_secrets(file: Path, secrets: Mapping[str, str]) -> None:
    """Write the values of secrets as lines of a shell, readable only by this user."""
    lines = [
        f"{name}='{value.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'\n"
        for name, value in sorted(secrets.items())
    ]
    data_dir.write_private(file.absolute(), "".join(lines).encode())


def _file(folder: Path, one: Object, others: Iterable[Object]) -> Path:
    """Return the file of an object: named as it is, with a part of its id if another one has the name too."""
    if one.kind.is_singleton:
        return folder / f"{one.kind.name}{_SUFFIX}"
    name = _slug(one.name)
    is_unique = sum(_slug(other.name) == name for other in others) == 1
    return folder / one.kind.folder / f"{name if is_unique else f'{name}-{one.id[:8]}'}{_SUFFIX}"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "object"


def _files(folder: Path, kind: Kind) -> list[Path]:
    if kind.is_singleton:
        return [file for file in [folder / f"{kind.name}{_SUFFIX}"] if file.exists()]
    return sorted((folder / kind.folder).glob(f"*{_SUFFIX}"))


def managed_kinds(folder: Path) -> frozenset[str]:
    """Return the names of the kinds that the folder manages: those that have a folder or a file there."""
    return frozenset(kind.name for kind in KINDS if (folder / kind.folder).is_dir() or _files(folder, kind))


def read(folder: Path) -> list[Object]:
    """Return the objects of all files. Raises FaultyFilesError with all faults at once."""
    if not folder.is_dir():
        raise FaultyFilesError(f"{folder}: there is no such folder; create it with identity export --dir {folder}")
    objects: list[Object] = []
    faults = list(_unknown_names(folder))
    for kind in KINDS:
        for file in _files(folder, kind):
            try:
                document = yaml.safe_load(file.read_text("utf-8"))
            except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
                faults.append(f"{file}: is not YAML: {error}")
                continue
            if not isinstance(document, dict):
                faults.append(f"{file}: must be a map of members")
                continue
            one, problems = documents.of_file(kind, document, file.parent, os.environ)
            faults += [f"{file}: {problem}" for problem in problems]
            objects.append(one)
    faults += _repeated(objects)
    if faults:
        raise FaultyFilesError("\n".join(faults))
    return objects


def _unknown_names(folder: Path) -> Iterator[str]:
    """Yield the folders and files that belong to no kind: their objects would be left out without a word.

    A folder without YAML files may have any other name: files of objects can refer to what is in it.
    """
    folders = [kind.folder for kind in KINDS if not kind.is_singleton]
    singletons = [f"{kind.name}{_SUFFIX}" for kind in KINDS if kind.is_singleton]
    for entry in sorted(folder.iterdir()):
        is_yaml = entry.suffix in _YAML_SUFFIXES
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and entry.name in folders:
            for file in sorted(entry.glob("*.yml")):
                yield f"{file}: is not read; rename it to {file.with_suffix(_SUFFIX).name}"
        elif entry.is_dir():
            has_yaml = any(file.suffix in _YAML_SUFFIXES for file in entry.iterdir())
            near = difflib.get_close_matches(entry.name, folders, n=1, cutoff=0.8)
            if has_yaml or near:
                yield f"{entry}: there is no kind with this folder; {_remedy(entry.name, folders)}"
        elif is_yaml and entry.name not in {*singletons, _KICKSTART}:
            yield f"{entry}: no object is read from this file; {_remedy(entry.name, singletons)}"


def _remedy(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"move it to the folder of a kind, or out of this one. Known names: {', '.join(sorted(known))}"


def _repeated(objects: Iterable[Object]) -> list[str]:
    seen: set[tuple[str, str]] = set()
    faults = []
    for one in objects:
        if one.address in seen:
            faults.append(f"two files have the {one.kind.name} {one.id}")
        seen.add(one.address)
    return faults
