"""A client that openapi-python-client generates from the document: it compiles and works.

The suite generates some subjects, because all of them take a quarter of a minute; `make clients` generates all.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import openapi
from tests.conftest import DEFAULT_TENANT, SUPER_KEY

SUBJECTS = ("entity", "lambda")
OPTIONS = "post_hooks: []\ncontent_type_overrides: {application/zip: application/octet-stream}\n"


def selected() -> dict[str, Any]:
    """Return the document, by default with some of its tags only and the components that they refer to."""
    document = openapi.served()
    if "ALL_CLIENTS" in os.environ:
        return document
    paths = {
        path: methods
        for path, methods in document["paths"].items()
        if next(iter(methods.values()))["tags"][0] in SUBJECTS
    }
    components = {**document["components"], "schemas": referenced(paths, document["components"]["schemas"])}
    return {**document, "paths": paths, "components": components}


def referenced(paths: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    queue = list(references(paths))
    while queue:
        name = queue.pop().rpartition("/")[2]
        if name in schemas and name not in found:
            found[name] = schemas[name]
            queue += references(schemas[name])
    return found


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> Iterator[str]:
    """Generate the package identity_client, and put it on the path."""
    folder: Path = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(selected()))
    (folder / "options.yaml").write_text(OPTIONS)
    program = Path(sys.executable).with_name("openapi-python-client")
    done = subprocess.run(
        [program, "generate", "--path", "openapi.json", "--config", "options.yaml", "--output-path", "client"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    compiled = subprocess.run(
        [sys.executable, "-m", "compileall", "-q", "client"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stdout
    sys.path.insert(0, str(folder / "client"))
    yield "identity_client"
    sys.path.remove(str(folder / "client"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "identity_client"]:
        del sys.modules[name]


@pytest.fixture
async def client(generated, service) -> AsyncIterator[Any]:
    module = importlib.import_module(f"{generated}.client")
    async with module.AuthenticatedClient(base_url=service.base_url, token=SUPER_KEY, prefix="") as opened:
        yield opened


@pytest.mark.requirement("openapi-9")
async def test_generated_client_creates_searches_and_deletes(generated, client):
    models, name = importlib.import_module(f"{generated}.models"), f"Generated {uuid.uuid4()}"
    api = functools.partial(importlib.import_module, package=f"{generated}.api.lambda_")
    body = f"function populate(jwt) {{ jwt.name = '{name}'; }}"
    request = models.LambdaRequest.from_dict({"lambda": {"name": name, "type": "JWTPopulate", "body": body}})
    created = await api(".create_lambda").asyncio(client=client, body=request)
    criterion = models.SearchLambdasByQueryBodyCriterion(body=f"*{name}*")
    found = await api(".search_lambdas_by_query").asyncio(
        client=client, body_criterion=criterion, x_fusion_auth_tenant_id=DEFAULT_TENANT
    )
    assert [(one.id, one.name) for one in found.lambdas] == [(created.lambda_.id, name)]
    deleted = await api(".delete_lambda").asyncio_detailed(created.lambda_.id, client=client)
    assert deleted.status_code == 200
    gone = await api(".retrieve_lambda").asyncio_detailed(created.lambda_.id, client=client)
    assert gone.status_code == 404


@pytest.mark.requirement("openapi-9")
async def test_generated_client_receives_typed_errors(generated, client):
    models = importlib.import_module(f"{generated}.models")
    create = importlib.import_module(f"{generated}.api.lambda_.create_lambda")
    request = models.LambdaRequest.from_dict({"lambda": {"name": "", "type": "JWTPopulate", "body": "x"}})
    refused = await create.asyncio(client=client, body=request)
    assert isinstance(refused, models.ErrorsResponse)
    assert refused.field_errors["lambda.name"][0].code == "[blank]lambda.name"
