"""What an export of another product contains, in the form of this service's API."""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click

from identity.domain.passwords import phc_strings

Json = dict[str, Any]

_NAMESPACE: Final = uuid.UUID("6d2f3a0e-5a52-4c0b-9f0e-0d6a0f3d7c11")


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """An object, or a part of one, that is not imported, and why."""

    kind: str
    name: str
    reason: str


@dataclasses.dataclass(slots=True)
class Export:
    """Applications, groups and users with their ids; `skipped` are those that cannot be imported.

    Passkeys are those of the passkey import, by the id of their user, as are links: each has the name of its provider
    in place of the id.
    """

    applications: list[Json] = dataclasses.field(default_factory=list)
    groups: list[Json] = dataclasses.field(default_factory=list)
    users: list[Json] = dataclasses.field(default_factory=list)
    passkeys: dict[str, list[Json]] = dataclasses.field(default_factory=dict)
    links: dict[str, list[Json]] = dataclasses.field(default_factory=dict)
    skipped: list[Skipped] = dataclasses.field(default_factory=list)

    def skip(self, kind: str, name: str, reason: str) -> None:
        """Add an object that is not imported."""
        self.skipped.append(Skipped(kind, name, reason))


def read_json(file: Path) -> list[Any]:
    """Return the values of a JSON file, or of the lines of an NDJSON file. Raises ClickException."""
    text = file.read_text("utf-8-sig")
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise click.ClickException(f"{file}: neither JSON nor a JSON value per line: {error}") from error


def objects(values: Iterable[Any]) -> list[Json]:
    """Return the objects among values, and in the lists among them."""
    found = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [item for item in found if isinstance(item, dict)]


def stable_id(source: str, value: str) -> str:
    """Return the id itself if it is a UUID, or one derived from it, so that a repeated import finds the object."""
    try:
        return str(uuid.UUID(value))
    except ValueError:
        return str(uuid.uuid5(_NAMESPACE, f"{source}:{value}"))


def phc_members(text: str) -> Json | None:
    """Return the password members of a bcrypt hash or another PHC string, or None if it is not supported."""
    try:
        phc_strings.parse(text)
    except ValueError:
        return None
    return {"encryptionScheme": phc_strings.SCHEME, "password": text}


def redirect_urls(export: Export, name: str, urls: Iterable[str]) -> list[str]:
    """Return the absolute URLs without wildcards, and skip the others."""
    kept = []
    for url in urls:
        if "*" in url or not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url):
            export.skip("redirect URL", f"{name}: {url}", "redirect URLs are absolute and have no wildcards here")
        else:
            kept.append(url)
    return kept


def without_empty(document: Json) -> Json:
    """Return the members that have a value."""
    return {name: value for name, value in document.items() if value not in (None, "", [], {})}
