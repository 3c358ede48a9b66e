"""Secrets by reference: `${env:NAME}` and `${file:PATH}` as the value of a member."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

Path = tuple[str, ...]

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^}]+)\}")


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the members that are no objects, with their paths."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, (*path, name))
    else:
        yield path, value


def paths(document: Any, folder: pathlib.Path, environ: Mapping[str, str]) -> tuple[frozenset[Path], frozenset[Path]]:
    """Return the paths of all references, and of those that have no value here. Raises UsageError."""
    found = {path: value for path, value in leaves(document) if isinstance(value, str) and _REFERENCE.fullmatch(value)}
    unresolved = {path for path, value in found.items() if _value(value, folder, environ) is None}
    return frozenset(found), frozenset(unresolved)


def resolved(value: Any, folder: pathlib.Path, environ: Mapping[str, str]) -> Any:
    """Return a value with every reference replaced by what it refers to, if that exists. Raises UsageError."""
    if isinstance(value, dict):
        return {name: resolved(member, folder, environ) for name, member in value.items()}
    if isinstance(value, str) and _REFERENCE.fullmatch(value):
        found = _value(value, folder, environ)
        return value if found is None else found
    return value


def _value(reference: str, folder: pathlib.Path, environ: Mapping[str, str]) -> str | None:
    """Return the value of a reference, or None if there is no such variable or file."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        return None
    if found[1] == "env":
        return environ.get(found[2])
    try:
        return (folder / found[2]).read_text("utf-8").rstrip("\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{reference} cannot be read: {error}") from error


def variable(kind: str, name: str, path: Path) -> str:
    """Return the name of the environment variable for a secret of an exported object."""
    return re.sub(r"[^A-Z0-9]+", "_", f"IDENTITY_SECRET_{kind}_{name}_{'_'.join(path)}".upper()).strip("_")


def reference(name: str) -> str:
    """Return the reference to an environment variable."""
    return f"${{env:{name}}}"
