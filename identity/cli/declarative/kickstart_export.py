"""A kickstart file that gives a new instance the exported configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from identity.call import Document
from identity.cli.declarative import documents, secret_references
from identity.cli.declarative.apply import grant_path
from identity.cli.declarative.documents import Object
from identity.cli.declarative.plan import default_tenant_id, in_order, is_default
from identity.domain.lambdas import lambdas

_HEAD: Final = """\
# Kickstart of a new instance with an exported configuration. Secrets are read from the environment of the first start.
# Signing keys are generated anew, under the ids of the exported ones.
"""
_IMMUTABLE: Final = frozenset({"connector", "theme"})
"""The kinds whose default object cannot be changed."""
_EXPRESSION: Final = re.compile(r"[#@&]\{")
_DEFAULT_KEY: Final = "#{FUSIONAUTH_DEFAULT_SIGNING_KEY_ID}"


def write(folder: Path, objects: Sequence[Object]) -> dict[str, str]:
    """Write kickstart.yaml; return the values of its secrets by variable."""
    secrets: dict[str, str] = {}
    ids = _ids_of_defaults(objects)
    found = [_request(one, objects, ids, secrets) for one in in_order(objects)]
    kickstart = {
        "variables": {"defaultTenantId": default_tenant_id(objects), "apiKey": "#{SECRET()}"},
        "apiKeys": [{"key": "#{apiKey}", "description": "First key: every endpoint", "keyManager": True}],
        "requests": [request for request in found if request is not None],
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(kickstart, sort_keys=False, allow_unicode=True, width=120)
    (folder / "kickstart.yaml").write_text(_HEAD + text, "utf-8")
    return secrets


def _ids_of_defaults(objects: Sequence[Object]) -> dict[str, str]:
    """Return the variables in place of the ids of objects that every instance has under an id of its own."""
    kinds = {lambdas.default_name(kind): kind for kind in lambdas.DEFAULT_BODIES}
    ids = {}
    for one in objects:
        if one.kind.is_key and is_default(one, objects) and not one.name.startswith("Client secret"):
            ids[one.id] = _DEFAULT_KEY
        elif one.kind.row.name == "lambda" and one.name in kinds:
            ids[one.id] = f"#{{FUSIONAUTH_LAMBDA[{kinds[one.name]}]_ID}}"
    return ids


def _request(
    one: Object, objects: Sequence[Object], ids: Mapping[str, str], secrets: dict[str, str]
) -> Document | None:
    """Return the request that creates an object, or that changes a default one; None if there is nothing to change."""
    is_changed = is_default(one, objects)
    if is_changed and (one.kind.is_key or one.kind.row.name in _IMMUTABLE):
        return None
    row = one.kind.row
    path = row.path if one.kind.is_singleton else f"{row.path}/{ids.get(one.id, one.id)}"
    if one.kind.is_key:
        is_public = "publicKey" in one.content or "certificate" in one.content
        path = f"{row.path}/{'import' if is_public else 'generate'}/{one.id}"
    if one.kind.is_grant:
        path = grant_path(one)
    request = {"method": "PUT" if is_changed else "POST", "url": path}
    tenant = {} if one.tenant_id is None else {"tenantId": one.tenant_id}
    return {**request, **tenant, "body": _body(one, ids, secrets)}


def _body(one: Object, ids: Mapping[str, str], secrets: dict[str, str]) -> Document:
    content = documents.concise(one.kind, documents.comparable(one))
    names = {}
    for path in documents.secret_paths(one.kind, content):
        name = secret_references.variable(one.kind.name, one.name, path)
        if name in secrets:  # an object of another tenant has the name too
            name = secret_references.variable(one.kind.name, f"{one.name} {one.id[:8]}", path)
        names[path] = name
        secrets[name] = str(documents.at(content, path))
    escaped = documents.with_ids(_escaped(content), ids)
    for path, name in names.items():
        documents.put(escaped, path, f"#{{ENV.{name}}}")
    return documents.body(one.kind, escaped)


def _escaped(value: Any) -> Any:
    """Return a value whose texts a kickstart does not take for expressions."""
    if isinstance(value, dict):
        return {name: _escaped(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return _EXPRESSION.sub(lambda found: f"\\{found[0]}", value) if isinstance(value, str) else value
