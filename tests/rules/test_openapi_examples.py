"""The examples of the OpenAPI document: one for every body, valid, and accepted by the service."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from identity.web.openapi import examples
from tests import openapi
from tests.conftest import MANAGER_KEY, checking_client

Document = dict[str, Any]

SERVED = openapi.served()
COMPONENTS = SERVED["components"]
WITHOUT_EXAMPLE = {"text/html", "text/plain", "application/zip"}

CREATED = (
    "/api/tenant/{tenantId}", "/api/key/generate/{keyId}", "/api/lambda/{lambdaId}", "/api/theme/{themeId}",
    "/api/email/template/{emailTemplateId}", "/api/messenger/{messengerId}",
    "/api/message/template/{messageTemplateId}", "/api/connector/{connectorId}",
    "/api/application/{applicationId}", "/api/group/{groupId}", "/api/consent/{consentId}",
    "/api/entity/type/{entityTypeId}", "/api/entity/{entityId}", "/api/form/field/{fieldId}", "/api/form/{formId}",
    "/api/identity-provider/{identityProviderId}", "/api/ip-acl/{ipAccessControlListId}",
    "/api/user-action/{userActionId}", "/api/user-action-reason/{userActionReasonId}", "/api/webhook/{webhookId}",
    "/api/api-key/{apiKeyId}", "/api/user/{userId}",
)  # fmt: skip
"""Operations whose requests are sent in this order, with the ids of their responses."""
OF_THE_OBJECTS = ("/api/user/registration/{userId}", "/api/login", "/api/entity/{entityId}/grant", "/api/group/member")
"""Operations on these objects, whose requests are sent afterwards."""


def values(media: Document) -> list[Any]:
    """Return the examples of a body."""
    shared = [one["$ref"].rpartition("/")[2] for one in media.get("examples", {}).values()]
    return [media["example"]] if "example" in media else [COMPONENTS["examples"][name]["value"] for name in shared]


def bodies() -> Iterator[tuple[str, Document]]:
    """(place, media) of every request and every response with a body."""
    for path, method, operation in openapi.operations():
        for kind, media in operation.get("requestBody", {}).get("content", {}).items():
            yield f"{method} {path} {kind}", media
        for status, response in operation["responses"].items():
            for kind, media in response.get("content", {}).items():
                if kind not in WITHOUT_EXAMPLE:
                    yield f"{method} {path} {status} {kind}", media


@functools.cache
def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    reference = {"$ref": f"urn:document#/components/schemas/{name}"}
    return jsonschema_rs.Draft202012Validator(reference, validate_formats=True, registry=registry())


@functools.cache
def registry() -> jsonschema_rs.Registry:
    """The document, read once for all validators."""
    return jsonschema_rs.Registry([("urn:document", {"components": {"schemas": COMPONENTS["schemas"]}})])


@pytest.mark.requirement("openapi-8")
def test_every_body_has_an_example_that_fits_its_schema() -> None:
    problems = []
    for place, media in bodies():
        if not values(media):
            problems.append(f"{place}: has no example")
        if "$ref" in media["schema"]:
            found = validator(media["schema"]["$ref"].rpartition("/")[2])
            problems += [f"{place}: {error.message}" for value in values(media) for error in found.iter_errors(value)]
    assert problems == []


@pytest.mark.requirement("openapi-8")
def test_every_example_is_of_a_component_or_an_operation() -> None:
    known = {operation["operationId"] for _, _, operation in openapi.operations()} | COMPONENTS["schemas"].keys()
    assert examples.load().keys() - known == set()


@pytest.mark.requirement("openapi-8")
def test_examples_have_only_members_that_requests_have() -> None:
    """Requests may have unknown members, so that the schema does not find a misspelled one."""
    requests = {
        media["schema"]["$ref"].rpartition("/")[2]: media
        for _, _, operation in openapi.operations()
        for media in operation.get("requestBody", {}).get("content", {}).values()
        if "$ref" in media["schema"]
    }
    for name, media in requests.items():
        for value in values(media):
            if isinstance(value, dict) and not COMPONENTS["schemas"][name].get("additionalProperties"):
                assert list(unknown(value, COMPONENTS["schemas"][name])) == [], name


def unknown(value: Document, schema: Document) -> Iterator[str]:
    while "$ref" in schema:
        schema = COMPONENTS["schemas"][schema["$ref"].rpartition("/")[2]]
    if not schema.keys().isdisjoint({"allOf", "anyOf", "oneOf", "additionalProperties"}):
        return
    properties = schema.get("properties", {})
    for name, member in value.items():
        if name not in properties:
            yield name
        elif isinstance(member, dict) and "properties" in properties[name]:
            yield from unknown(member, properties[name])


def request_of(path: str, method: str, kind: str = "application/json") -> Any:
    return values(SERVED["paths"][path][method]["requestBody"]["content"][kind])[0]


def id_in(path: str) -> str:
    (body,) = values(SERVED["paths"][path]["post"]["responses"]["200"]["content"]["application/json"])
    return str(next(value["id"] for value in body.values() if isinstance(value, dict)))


@pytest.mark.requirement("openapi-8")
async def test_service_accepts_the_examples(build) -> None:
    ids: dict[str, str] = {}
    async with build() as running, checking_client(running.base_url, headers={"Authorization": MANAGER_KEY}) as client:
        for path in CREATED:
            ids[path.rpartition("{")[2].rstrip("}")] = id_in(path)
            is_global = path.startswith(("/api/tenant", "/api/webhook", "/api/api-key"))
            headers = {} if is_global else {"X-FusionAuth-TenantId": ids["tenantId"]}
            answer = await client.post(path.format_map(ids), json=request_of(path, "post"), headers=headers)
            assert answer.status_code == 200, (path, answer.text)
            for kind in SERVED["paths"][path].get("patch", {}).get("requestBody", {}).get("content", {}):
                sent = {**headers, "Content-Type": kind}
                answer = await client.patch(path.format_map(ids), json=request_of(path, "patch", kind), headers=sent)
                assert answer.status_code == 200, (path, kind, answer.text)
        for path in OF_THE_OBJECTS:
            headers = {"X-FusionAuth-TenantId": ids["tenantId"]}
            answer = await client.post(path.format_map(ids), json=request_of(path, "post"), headers=headers)
            assert answer.status_code == 200, (path, answer.text)
