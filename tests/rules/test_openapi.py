"""The OpenAPI document: valid, complete, and strict enough that an answer which breaks a promise is found out."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openapi_spec_validator
import pytest

from identity.operations import grants
from identity.schemas import load
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Endpoint, Parameters
from identity.web.openapi import document
from tests import openapi
from tests.conftest import checking_client

ROOT = Path(__file__).resolve().parent.parent.parent
SCIM = "/api/scim/"
SERVED = openapi.served()
OPERATIONS = list(openapi.operations())
IDS = [f"{method} {path}" for path, method, _ in OPERATIONS]
ANSWERED_BY_STATUS = {
    "/.well-known/change-password", "/api/health", "/api/health/live", "/api/system/reindex",
    "/api/user/change-password", "/api/user/change-password/{changePasswordId}",
    "/oauth2/device/validate", "/{tenantId}/oauth2/device/validate",
}  # fmt: skip
"""What is retrieved without a body."""

Document = dict[str, Any]


# The document as such


@pytest.mark.requirement("openapi-2")
def test_document_is_valid() -> None:
    openapi_spec_validator.validate(SERVED)


@pytest.mark.requirement("openapi-1")
async def test_document_is_served_to_everybody_and_kept_until_it_changes(service) -> None:
    async with checking_client(service.base_url) as client:
        answer = await client.get("/api/openapi.json")
        assert answer.status_code == 200
        assert answer.json() == json.loads(json.dumps(SERVED))
        assert "public" in answer.headers["Cache-Control"]
        again = await client.get("/api/openapi.json", headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        other = await client.get("/api/openapi.json", headers={"If-None-Match": '"other"'})
        assert other.content == answer.content


def test_document_is_the_same_each_time() -> None:
    assert json.dumps(document.build(openapi.routes())) == json.dumps(SERVED)


@pytest.mark.requirement("openapi-1")
def test_document_names_every_route_of_the_api() -> None:
    named = {re.sub(r"\{\w+\}", "{}", path) for path in SERVED["paths"]}
    for route in openapi.routes():
        if issubclass(route.handler, ApiHandler) and route.template.startswith("/api/"):
            assert re.sub(r"\{\w+\}", "{}", route.template) in named


def test_pages_are_left_out() -> None:
    assert not [path for path in SERVED["paths"] if path.startswith(("/admin", "/static")) or path == "/"]


def test_ids_go_by_the_names_of_the_api() -> None:
    assert "/api/webhook/{webhookId}" in SERVED["paths"]
    assert "/api/application/{applicationId}/role/{roleId}" in SERVED["paths"]
    assert "/api/user/registration/{userId}/{applicationId}" in SERVED["paths"]
    assert "_id}" not in "".join(SERVED["paths"])


# Operations


@pytest.mark.requirement("openapi-2")
@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS, ids=IDS)
def test_operation_is_described(path: str, method: str, operation: Document) -> None:
    assert len(operation["summary"]) > 5
    assert re.fullmatch(r"[a-z]\w+", operation["operationId"])
    assert set(operation["tags"]) <= {tag["name"] for tag in SERVED["tags"]}
    inside = [found["name"] for found in operation.get("parameters", ()) if found.get("in") == "path"]
    assert inside == re.findall(r"\{(\w+)\}", path)
    for parameter in operation.get("parameters", ()):
        assert "$ref" in parameter or parameter["description"] not in {"", f"The {parameter['name']}."}, parameter
    for status, answer in operation["responses"].items():
        assert answer["description"], status
    # 401 is for a missing key; a login through a provider has it for what the provider says. Where no key is required,
    # one that is not valid is ignored.
    is_login = path in {"/api/identity-provider/login", "/api/jwt/reconcile"}
    has_credentials = is_login or operation["security"] not in ([], [{}, {"apiKey": []}])
    is_page = "text/html" in operation["responses"].get("403", {}).get("content", {})
    assert ("401" in operation["responses"]) == has_credentials or is_page


@pytest.mark.requirement("openapi-3")
def test_operations_of_the_protocol_say_what_they_are_for() -> None:
    for path, method, operation in OPERATIONS:
        if "/oauth2/" in path or "/.well-known/" in path:
            assert len(operation["description"]) > len(operation["summary"].partition(":")[0]), (path, method)
            assert "Raises" not in operation["description"]
    described = SERVED["paths"]["/oauth2/par"]["post"]["description"]
    assert described == (
        "The pushed authorization request endpoint. "
        "Store an authorization request for a minute and return its request_uri."
    )


@pytest.mark.requirement("openapi-3")
@pytest.mark.parametrize(
    "path",
    [
        "/oauth2/token", "/oauth2/par", "/oauth2/introspect", "/oauth2/revoke", "/oauth2/device_authorize",
        "/oauth2/device/user-code", "/oauth2/device/approve",
    ],
)  # fmt: skip
def test_forms_of_clients_come_with_examples_that_they_take(path: str) -> None:
    (content,) = SERVED["paths"][path]["post"]["requestBody"]["content"].values()
    schema = SERVED["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
    assert schema["examples"]
    for example in schema["examples"]:
        assert example.keys() <= schema["properties"].keys()
        assert set(schema.get("required", [])) <= example.keys()


@pytest.mark.requirement("openapi-3")
def test_client_metadata_is_sent_as_json() -> None:
    for path, method in (("/oauth2/register-client", "post"), ("/oauth2/register-client/{clientId}", "put")):
        assert list(SERVED["paths"][path][method]["requestBody"]["content"]) == ["application/json"]


@pytest.mark.requirement("openapi-3")
def test_every_grant_has_an_example() -> None:
    shown = [example["grant_type"] for example in load("oauth2/token.request.json")["examples"]]
    assert sorted(shown) == sorted(grants.GRANTS)


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids)


def schemas_of(holder: Document) -> Document:
    """Return the schemas of a body by media type."""
    return {kind: media["schema"] for kind, media in holder["content"].items()}


def test_refusals_of_the_management_api_are_errors_or_empty() -> None:
    for path, method, operation in OPERATIONS:
        if not path.startswith("/api/") or path.startswith(SCIM):
            continue
        answers = operation["responses"]
        errors = {"$ref": "#/components/schemas/ErrorsResponse"}
        assert schemas_of(answers["400"]) == {"application/json": errors}, (method, path)
        for status in ("401", "404"):
            assert "content" not in answers.get(status, {}), (method, path)


def test_scim_has_the_media_type_and_the_errors_of_the_protocol() -> None:
    error = {"application/scim+json": {"$ref": "#/components/schemas/ScimErrorResponse"}}
    for path, method, operation in OPERATIONS:
        if path.startswith(SCIM):
            assert schemas_of(operation["responses"]["400"]) == error, (method, path)
            assert schemas_of(operation["responses"]["401"]) == error, (method, path)
            assert operation["security"] == [{"bearer": []}]
            body = operation.get("requestBody", {"content": {"application/scim+json": {}}})
            assert set(body["content"]) == {"application/scim+json"}


def test_api_key_bearer_token_and_client_are_the_ways_to_prove_who_one_is() -> None:
    assert SERVED["paths"]["/api/webhook"]["get"]["security"] == [{"apiKey": []}]
    assert SERVED["paths"]["/oauth2/userinfo"]["get"]["security"] == [{"bearer": []}, {}]
    assert SERVED["paths"]["/oauth2/token"]["post"]["security"] == [{"client": []}, {}]
    assert SERVED["paths"]["/api/health"]["get"]["security"] == []
    assert SERVED["paths"]["/api/status"]["get"]["security"] == [{"apiKey": []}, {}]


def test_patches_come_in_three_kinds() -> None:
    for path, method, operation in OPERATIONS:
        if method == "patch" and not path.startswith(SCIM):
            assert set(operation["requestBody"]["content"]) == {
                "application/json",
                "application/json-patch+json",
                "application/merge-patch+json",
            }, path


# Schemas


def properties(node: Any, at: str) -> Iterator[tuple[str, Document]]:
    """Every member of a schema, at whatever depth."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from properties(item, f"{at}[{index}]")
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "properties":
                for name, child in value.items():
                    yield f"{at}.{name}", child
                    yield from properties(child, f"{at}.{name}")
            elif key not in {"const", "default", "else", "enum", "if", "required", "then"}:
                yield from properties(value, at)


@pytest.mark.requirement("openapi-2")
@pytest.mark.parametrize("name", SERVED["components"]["schemas"])
def test_members_of_a_component_are_described_and_annotations_of_ours_left_out(name: str) -> None:
    schema = SERVED["components"]["schemas"][name]
    assert '"x-' not in json.dumps(schema)
    for path, member in properties(schema, name):
        assert "description" in member or "$ref" in member, path


def test_answers_are_closed_and_hold_what_has_a_default() -> None:
    webhook = SERVED["components"]["schemas"]["Webhook"]
    assert webhook["additionalProperties"] is False
    assert {"url", "data", "global", "tenantIds"} <= set(webhook["required"])
    assert webhook["properties"]["id"]["readOnly"] is True


def test_secrets_are_in_requests_alone() -> None:
    schemas = SERVED["components"]["schemas"]
    assert schemas["KeyInput"]["properties"]["privateKey"]["writeOnly"] is True
    assert "privateKey" not in schemas["Key"]["properties"]
    assert "password" not in schemas["User"]["properties"]


def test_patches_require_nothing_and_take_null() -> None:
    patch = SERVED["components"]["schemas"]["WebhookPatch"]
    assert "required" not in patch
    assert patch["properties"]["url"]["type"] == ["string", "null"]


# Declarations


@pytest.mark.parametrize("route", openapi.routes(), ids=lambda route: route.template)
def test_methods_that_read_a_body_say_which_and_patches_too(route: Route) -> None:
    described = {(path, method) for path, method, _ in OPERATIONS}
    handler = route.handler.__new__(route.handler)
    vars(handler).update(route.arguments)
    for method in handler.allowed().split(", "):
        declared: Endpoint = getattr(route.handler, method.lower()).endpoint
        path = openapi.document_path(route)
        if declared.answer == {} or (path, method.lower()) not in described:
            continue
        operation = SERVED["paths"][path][method.lower()]
        if declared.raw_body or declared.body or declared.form or method == "PATCH":
            assert "requestBody" in operation, method


def test_everything_that_is_retrieved_has_a_described_answer() -> None:
    """Responses to changes are checked when a test receives them: undeclared JSON is an error."""
    for path, method, operation in OPERATIONS:
        if method == "get" and path not in ANSWERED_BY_STATUS:
            contents = [answer.get("content") for status, answer in operation["responses"].items() if status < "400"]
            assert any(contents), path


@pytest.mark.requirement("openapi-4")
def test_query_parameters_are_read_through_their_declaration() -> None:
    for file in (ROOT / "identity" / "web").rglob("*.py"):
        if file.name == "request.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in {"get_query_argument", "get_query_arguments", "get_argument"}, file


READS_PARAMETER = {"flag", "texts", "query_id", "required_query_id", "given_parameters"}


def parameters_read(tree: ast.AST) -> Iterator[str]:
    """Yield the query parameters that a module reads by a literal name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            called, names = node.func, node.args
            if called.attr == "get" and ast.unparse(called.value) == "self.query()":
                names = names[:1]
            elif called.attr not in READS_PARAMETER:
                continue
            yield from (name.value for name in names if isinstance(name, ast.Constant))


@pytest.mark.parametrize("module", sorted({route.handler.__module__ for route in openapi.routes()}))
def test_query_parameters_that_a_module_reads_are_declared_in_it(module: str) -> None:
    declared = {
        name
        for route in openapi.routes()
        for base in route.handler.__mro__
        if base.__module__ == module
        for method in vars(base).values()
        for name in getattr(getattr(method, "endpoint", None), "query", ())
    }
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text()
    assert set(parameters_read(ast.parse(source))) <= declared


MAY_BE_EMPTY = {
    "email-preview.response.json",
    "email-send.response.json",
    "status.response.json",
    "two-factor-status.response.json",
}


@pytest.mark.requirement("openapi-4")
def test_query_parameter_that_is_not_declared_cannot_be_read() -> None:
    """Not by chance either: the request may well have it."""
    parameters = Parameters({"known": "1", "other": "2"}, {"known", "absent"})
    assert parameters["known"] == parameters.get("known") == "1"
    assert parameters.get("absent", "none") == "none"
    for ask in (parameters.get, parameters.__getitem__):
        with pytest.raises(LookupError, match="does not declare the query parameter other"):
            ask("other")


def test_every_answer_file_promises_something() -> None:
    for file in (ROOT / "schemas").glob("*/*.response.json"):
        schema = load(file.relative_to(ROOT / "schemas").as_posix())
        assert schema.get("required") or schema.get("minProperties") or file.name in MAY_BE_EMPTY, file.name


# The judge


def judged(method: str, path: str, status: int, body: Any = None, kind: str = "application/json") -> str | None:
    content = b"" if body is None else json.dumps(body).encode()
    answer = httpx.Response(status, content=content, headers={"Content-Type": kind})
    return openapi.problem_of(path, method, answer)


ERRORS = {"generalErrors": [{"code": "[invalid]", "message": "No."}]}


@pytest.mark.requirement("openapi-5")
@pytest.mark.parametrize(
    ("method", "path", "status", "body", "complaint"),
    [
        ("get", "/api/system/version", 200, {"version": "1"}, None),
        ("get", "/api/system/version", 200, {"version": 1}, "not of type"),
        ("get", "/api/system/version", 200, {}, "required"),
        ("get", "/api/system/version", 200, {"version": "1", "more": 1}, "more"),
        ("get", "/api/system/version", 200, None, "a body is missing"),
        ("get", "/api/system/version", 201, {"version": "1"}, "no such status"),
        ("get", "/api/system/version", 400, ERRORS, None),
        ("get", "/api/system/version", 400, {}, "less than 1"),
        ("get", "/api/system/version", 400, {"generalErrors": [{"code": "bad", "message": ""}]}, "does not match"),
        ("get", "/api/system/version", 401, None, None),
        ("get", "/api/system/version", 401, ERRORS, "media type"),
        ("put", "/api/system/version", 405, None, None),
        ("put", "/api/system/version", 200, None, "no such operation"),
        ("put", "/api/webhook", 200, {"webhook": {}}, "no such operation"),
        ("put", "/api/webhook", 400, ERRORS, None),
        ("get", "/api/webhook/{webhookId}", 200, {"webhook": {"url": "x"}}, "required"),
        ("get", "/api/webhook", 200, {"webhooks": [{}]}, "required"),
        ("get", "/api/webhook/search", 200, {"webhooks": []}, "total"),
        ("post", "/oauth2/token", 400, {"error": "invalid_grant"}, None),
        ("post", "/oauth2/token", 400, ERRORS, "generalErrors"),
    ],
)
def test_judge_finds_what_breaks_a_promise(method, path, status, body, complaint) -> None:
    problem = judged(method, path, status, body)
    assert (problem is None) if complaint is None else (complaint in (problem or "")), problem


def test_judge_knows_media_types() -> None:
    assert "media type" in (judged("get", "/api/system/version", 200, {"version": "1"}, "text/html") or "")


def test_judge_finds_the_path_of_a_request() -> None:
    assert openapi.path_of("/api/webhook/search") == "/api/webhook/search"
    assert openapi.path_of("/api/webhook/search/") == "/api/webhook/search"
    assert openapi.path_of("/api/webhook/7a2f6a3e-0000-4000-8000-000000000000") == "/api/webhook/{webhookId}"
    assert openapi.path_of("/api/nothing") is None


@pytest.mark.requirement("openapi-2")
@pytest.mark.parametrize("file", sorted((ROOT / "schemas").rglob("*.json")), ids=lambda file: file.name)
def test_schema_file_says_no_name_twice(file: Path) -> None:
    def once(pairs: list[tuple[str, Any]]) -> Document:
        names = [name for name, _ in pairs]
        assert len(names) == len(set(names)), names
        return dict(pairs)

    json.loads(file.read_text(), object_pairs_hook=once)
