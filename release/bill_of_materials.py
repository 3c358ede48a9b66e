"""The software bill of materials of a wheel, in the format CycloneDX 1.6 (ECMA-424).

It lists what `pip install` of the wheel brings along, without extras, in the versions that are installed here: those
that the test suite ran with.
"""

from __future__ import annotations

import datetime
import email.parser
import hashlib
import json
import uuid
import zipfile
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def of_wheel(wheel: Path, epoch: int) -> str:
    """Return the bill of materials as JSON. Raises PackageNotFoundError for a requirement that is not installed."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        described = email.parser.Parser().parsestr(archive.read(name).decode())
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    component = {**_component(described, "application"), "hashes": [{"alg": "SHA-256", "content": digest}]}
    installed = _closure(described)
    edges = {component["bom-ref"]: _direct(described, frozenset())}
    edges |= {_reference(found): _direct(found, extras) for found, extras in installed.values()}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.UTC).isoformat(),
            "component": component,
        },
        "components": [_component(found, "library") for _, (found, _) in sorted(installed.items())],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(_reference(installed[name][0]) for name in names)}
            for ref, names in sorted(edges.items())
        ],
    }
    return json.dumps(bill, indent=2) + "\n"


def _closure(described: Message) -> dict[str, tuple[Message, frozenset[str]]]:
    """Return the metadata of all requirements, direct and indirect, with the extras they are required with."""
    found: dict[str, tuple[Message, frozenset[str]]] = {}
    pending = list(_requirements(described, frozenset()))
    while pending:
        required = pending.pop()
        name, extras = canonicalize_name(required.name), frozenset(required.extras)
        known = found[name][1] if name in found else None
        if known is None or not extras <= known:
            extras |= known or frozenset()
            # importlib.metadata types it as a protocol; it is an email.message.Message.
            message: Any = metadata.metadata(required.name)
            found[name] = (message, extras)
            pending.extend(_requirements(message, extras))
    return found


def _direct(described: Message, extras: frozenset[str]) -> set[str]:
    return {canonicalize_name(required.name) for required in _requirements(described, extras)}


def _requirements(described: Message, extras: frozenset[str]) -> list[Requirement]:
    """Return the requirements of a distribution that apply on this platform."""
    stated = [Requirement(text) for text in described.get_all("Requires-Dist") or []]
    return [
        one
        for one in stated
        if one.marker is None or any(one.marker.evaluate({"extra": each}) for each in ("", *extras))
    ]


def _component(described: Message, kind: str) -> dict[str, Any]:
    return {
        "type": kind,
        "bom-ref": _reference(described),
        "name": canonicalize_name(described["Name"]),
        "version": described["Version"],
        "purl": _reference(described),
        **({"description": described["Summary"]} if described["Summary"] else {}),
        **({"licenses": licenses} if (licenses := _licenses(described)) else {}),
    }


def _reference(described: Message) -> str:
    return f"pkg:pypi/{canonicalize_name(described['Name'])}@{described['Version']}"


def _licenses(described: Message) -> list[dict[str, Any]]:
    """Return the SPDX expression (PEP 639), or else the names that the distribution states."""
    if described["License-Expression"]:
        return [{"expression": described["License-Expression"]}]
    classifiers = [one for one in described.get_all("Classifier") or [] if one.startswith("License :: ")]
    names = [one.rpartition(" :: ")[2] for one in classifiers if not one.endswith(":: OSI Approved")]
    stated = (described["License"] or "").strip()
    if not names and stated and "\n" not in stated:
        names = [stated]
    return [{"license": {"name": name}} for name in names]
