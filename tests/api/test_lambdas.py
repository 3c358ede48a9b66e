"""/api/lambda: every field, every error, the three patches, search, references, and default lambdas."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from identity import app
from identity.domain.lambdas import lambdas as rules
from identity.errors import Unavailable
from identity.ids import new_id
from identity.operations.configuration import bootstrap
from identity.operations.lambdas import lambdas
from tests import internals
from tests.rules.test_access import add_key

Document = dict[str, Any]

POPULATE = "function populate(jwt, user, registration) { jwt.colour = 'blue'; }"


def lambda_body(**members: Any) -> Document:
    return {"lambda": {"name": f"Lambda {new_id()}", "type": "JWTPopulate", "body": POPULATE, **members}}


async def make(api: httpx.AsyncClient, **members: Any) -> Document:
    answer = await api.post("/api/lambda", json=lambda_body(**members))
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["lambda"])


def errors(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    return {path: [e["code"] for e in entries] for path, entries in answer.json().get("fieldErrors", {}).items()}


def message(answer: httpx.Response, path: str) -> str:
    return str(answer.json()["fieldErrors"][path][0]["message"])


@pytest.mark.requirement("core-18-lambdas-1")
async def test_created_lambda_is_returned_as_sent(api: httpx.AsyncClient) -> None:
    lambda_id, body = new_id(), f"\n// A comment\n{POPULATE}\n\n"
    sent = lambda_body(body=body, debug=True, engineType="GraalJS", name=" Colours ", unknown=1)
    answer = await api.post(f"/api/lambda/{lambda_id}", json=sent)
    assert answer.status_code == 200, answer.text
    made = answer.json()["lambda"]
    assert made["insertInstant"] == made["lastUpdateInstant"]
    assert made == {
        "id": lambda_id,
        "name": "Colours",
        "type": "JWTPopulate",
        "body": body,
        "debug": True,
        "engineType": "GraalJS",
        "insertInstant": made["insertInstant"],
        "lastUpdateInstant": made["lastUpdateInstant"],
    }
    assert (await api.get(f"/api/lambda/{lambda_id}")).json() == {"lambda": made}
    assert made in (await api.get("/api/lambda")).json()["lambdas"]
    assert errors(await api.post(f"/api/lambda/{lambda_id}", json=lambda_body())) == {
        "lambdaId": ["[duplicate]lambdaId"]
    }
    assert (await api.delete(f"/api/lambda/{lambda_id}")).status_code == 200
    assert (await api.get(f"/api/lambda/{lambda_id}")).status_code == 404
    assert (await api.delete(f"/api/lambda/{lambda_id}")).status_code == 404


@pytest.mark.requirement("core-18-lambdas-7")
async def test_debug_and_engine_type_have_defaults(api: httpx.AsyncClient) -> None:
    made = await make(api)
    assert (made["debug"], made["engineType"]) == (False, "GraalJS")


@pytest.mark.requirement("core-18-lambdas-5")
async def test_all_missing_members_of_empty_body_are_reported(api: httpx.AsyncClient) -> None:
    assert errors(await api.post("/api/lambda", json={"lambda": {}})) == {
        "lambda.body": ["[blank]lambda.body"],
        "lambda.name": ["[blank]lambda.name"],
        "lambda.type": ["[missing]lambda.type"],
    }


@pytest.mark.requirement("core-18-lambdas-5")
@pytest.mark.parametrize(
    ("member", "value", "code"),
    [
        ("name", "  ", "[blank]lambda.name"),
        ("name", "x" * 192, "[tooLong]lambda.name"),
        ("name", [5], "[invalidJSON]"),
        ("body", " \n ", "[blank]lambda.body"),
        ("body", "/*" + "x" * 100_000 + "*/", "[tooLong]lambda.body"),
        ("body", [5], "[invalidJSON]"),
        ("type", "JWTPopulation", "[invalid]lambda.type"),
        ("type", None, "[missing]lambda.type"),
        ("engineType", "Nashorn", "[invalid]lambda.engineType"),
        ("debug", "yes", "[invalidJSON]"),
    ],
)
async def test_invalid_value_is_reported_on_field(api: httpx.AsyncClient, member: str, value: Any, code: str) -> None:
    found = errors(await api.post("/api/lambda", json=lambda_body(**{member: value})))
    assert found == {f"lambda.{member}": [code]}


@pytest.mark.requirement("core-18-lambdas-6")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("function populate(jwt) {\n  jwt.a = ;\n}", "SyntaxError: unexpected token in expression: ';' in line 2"),
        ("function populate(jwt) {", "SyntaxError: unexpected token in expression: '' in line 1"),
        ("\n\nthrow new Error('at once')", "Error: at once in line 3"),
        ("function validate(result) {}", "there is no function named populate"),
        ("var populate = 5", "there is no function named populate"),
        ("for (;;);", "InternalError: interrupted in line 1"),
        ("new Array(4e9).join('')", "it took more than 500 ms of processor time"),
    ],
)
async def test_invalid_body_is_refused_with_line(api: httpx.AsyncClient, body: str, expected: str) -> None:
    answer = await api.post("/api/lambda", json=lambda_body(body=body))
    assert errors(answer) == {"lambda.body": ["[invalid]lambda.body"]}
    assert message(answer, "lambda.body") == f"The [lambda.body] cannot be used: {expected}."


@pytest.mark.requirement("core-18-lambdas-3", "core-18-lambdas-6", "core-18-lambdas-8")
@pytest.mark.parametrize("kind", sorted(rules.FUNCTIONS))
async def test_every_type_requires_its_function(api: httpx.AsyncClient, kind: str) -> None:
    name = rules.FUNCTIONS[kind]
    made = await make(api, type=kind, body=f"function {name}(first, second) {{}}")
    assert made["type"] == kind
    other = await api.post("/api/lambda", json=lambda_body(type=kind, body=f"function {name}2() {{}}"))
    assert errors(other) == {"lambda.body": ["[invalid]lambda.body"]}
    listed = (await api.get("/api/lambda", params={"type": kind})).json()["lambdas"]
    assert made in listed
    assert {entry["type"] for entry in listed} == {kind}


@pytest.mark.requirement("core-18-lambdas-3")
async def test_list_of_unknown_type_is_refused(api: httpx.AsyncClient) -> None:
    answer = await api.get("/api/lambda", params={"type": "JWT"})
    assert errors(answer) == {"type": ["[couldNotConvert]type"]}
    assert (await api.get("/api/lambda", params={"type": ""})).json() == (await api.get("/api/lambda")).json()


@pytest.mark.requirement("core-18-lambdas-1")
async def test_put_replaces_everything_including_executed_body(api: httpx.AsyncClient) -> None:
    made = await make(api, debug=True)
    path = f"/api/lambda/{made['id']}"
    answer = await api.put(path, json=lambda_body(name="Other", body="\nfunction populate() {}"))
    changed = answer.json()["lambda"]
    assert (changed["name"], changed["body"], changed["debug"]) == ("Other", "\nfunction populate() {}", False)
    assert changed["insertInstant"] == made["insertInstant"]
    assert changed["lastUpdateInstant"] > made["lastUpdateInstant"]
    assert errors(await api.put(path, json=lambda_body(body="("))) == {"lambda.body": ["[invalid]lambda.body"]}
    assert (await api.get(path)).json()["lambda"] == changed
    assert (await api.put(f"/api/lambda/{new_id()}", json=lambda_body())).status_code == 404


@pytest.mark.requirement("core-18-lambdas-2")
async def test_the_three_kinds_of_patch(api: httpx.AsyncClient) -> None:
    made = await make(api)
    path, body = f"/api/lambda/{made['id']}", "function populate(jwt) { jwt.patched = true }"
    merged = (await api.patch(path, json={"lambda": {"body": body}})).json()["lambda"]
    assert {**merged, "lastUpdateInstant": 0} == {**made, "body": body, "lastUpdateInstant": 0}
    answer = await api.patch(
        path, json={"lambda": {"debug": True}}, headers={"Content-Type": "application/merge-patch+json"}
    )
    assert answer.json()["lambda"]["debug"] is True
    operations = [{"op": "replace", "path": "/lambda/name", "value": "Patched"}]
    answer = await api.patch(path, json=operations, headers={"Content-Type": "application/json-patch+json"})
    assert answer.json()["lambda"]["name"] == "Patched"
    assert answer.json()["lambda"]["body"] == body
    assert errors(await api.patch(path, json={"lambda": {"body": "("}})) == {"lambda.body": ["[invalid]lambda.body"]}
    assert errors(await api.patch(path, json={"lambda": {"body": None}})) == {"lambda.body": ["[blank]lambda.body"]}


@pytest.mark.requirement("core-18-lambdas-4")
async def test_search(api: httpx.AsyncClient) -> None:
    mark = new_id()
    made = [
        await make(api, name=f"{mark} b", body=f"function populate() {{ /* {mark} */ }}"),
        await make(api, name=f"{mark} a", type="UserInfoPopulate"),
        await make(api, name=f"{mark} c", type="UserInfoPopulate"),
    ]
    by_name = (await api.get("/api/lambda/search", params={"name": f"{mark}*"})).json()
    assert by_name == {"total": 3, "lambdas": [made[1], made[0], made[2]]}
    by_body = (await api.post("/api/lambda/search", json={"search": {"body": mark.upper()}})).json()
    assert by_body == {"total": 1, "lambdas": made[:1]}
    by_type = {"search": {"name": mark, "type": "UserInfoPopulate", "orderBy": "insertInstant DESC"}}
    assert (await api.post("/api/lambda/search", json=by_type)).json() == {"total": 2, "lambdas": [made[2], made[1]]}
    for order in ("engineType, id", "id DESC", "name DESC,insertInstant"):
        page = {"name": mark, "orderBy": order, "numberOfResults": 2, "startRow": 1}
        found = (await api.get("/api/lambda/search", params=page)).json()
        assert (found["total"], len(found["lambdas"])) == (3, 2)
    bad = await api.get("/api/lambda/search", params={"orderBy": "body"})
    assert errors(bad) == {"orderBy": ["[invalid]orderBy"]}


TENANT_MEMBERS = [("tenant", member, kind) for member, kind in rules.REFERENCES["tenant"].items()]
APPLICATION_MEMBERS = [("application", member, kind) for member, kind in rules.REFERENCES["application"].items()]


@pytest.mark.requirement(
    "core-18-lambdas-9", "core-8-lambdaConfiguration", "core-8-oauthConfiguration", "core-9-lambdaConfiguration"
)
@pytest.mark.parametrize(("resource", "member", "kind"), [*TENANT_MEMBERS, *APPLICATION_MEMBERS])
async def test_referenced_lambda_must_have_type_and_cannot_be_deleted(
    api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, tenant: Document, resource: str, member: str, kind: str
) -> None:
    path = f"/api/tenant/{tenant['id']}"
    if resource == "application":
        body = {"application": {"name": f"A {new_id()}"}}
        path = f"/api/application/{(await tenant_api.post('/api/application', json=body)).json()['application']['id']}"
    section, name = member.split(".")

    async def refer(lambda_id: str | None) -> httpx.Response:
        return await tenant_api.patch(path, json={resource: {section: {name: lambda_id}}})

    other_kind = "JWTPopulate" if kind != "JWTPopulate" else "UserInfoPopulate"
    other = await make(api, type=other_kind)
    made = await make(api, type=kind, body=f"function {rules.FUNCTIONS[kind]}() {{}}")
    field = f"{resource}.{member}"
    for wrong in (new_id(), other["id"]):
        assert errors(await refer(wrong)) == {field: [f"[invalid]{field}"]}
    answer = await refer(made["id"])
    assert answer.status_code == 200, answer.text
    assert answer.json()[resource][section][name] == made["id"]
    assert errors(await api.delete(f"/api/lambda/{made['id']}")) == {"lambdaId": ["[inUse]lambdaId"]}
    retyped = {"lambda": {"type": other_kind, "body": POPULATE}}
    assert errors(await api.patch(f"/api/lambda/{made['id']}", json=retyped)) == {"lambda.type": ["[inUse]lambda.type"]}
    renamed = await api.patch(f"/api/lambda/{made['id']}", json={"lambda": {"name": "In use"}})
    assert renamed.status_code == 200
    assert (await refer(None)).status_code == 200
    answer = await api.patch(f"/api/lambda/{made['id']}", json=retyped)
    assert answer.json()["lambda"]["type"] == other_kind
    assert (await api.delete(f"/api/lambda/{made['id']}")).status_code == 200


@pytest.mark.requirement("core-18-lambdas-10")
async def test_tenant_key_reads_but_does_not_change_lambdas(
    service: Any, api: httpx.AsyncClient, tenant: Document
) -> None:
    made = await make(api)
    key = await add_key(service, tenantId=tenant["id"])
    headers = {"Authorization": key, "X-FusionAuth-TenantId": tenant["id"]}
    path = f"/api/lambda/{made['id']}"
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await api.request(method, path, json=lambda_body(), headers=headers)).status_code == 401
    assert (await api.get(path, headers=headers)).status_code == 200
    assert (await api.get(path)).json() == {"lambda": made}


@pytest.mark.requirement("core-13-13", "core-13-19", "core-18-lambdas-11")
async def test_default_lambdas_exist_and_run(service: app.Service, api: httpx.AsyncClient) -> None:
    variables = await internals.run(service, bootstrap.predefined_variables, "http://localhost")
    call = internals.call(service)
    inputs = {
        "AppleReconcile": {"given_name": "Ada", "family_name": "Lovelace"},
        "FacebookReconcile": {"first_name": "Ada", "last_name": "Lovelace", "picture": {"data": {"url": "p"}}},
        "GoogleReconcile": {"given_name": "Ada", "family_name": "Lovelace", "picture": "p"},
        "OpenIDReconcile": {"given_name": "Ada", "family_name": "Lovelace", "birthdate": "1815-12-10"},
        "SAMLv2Reconcile": {
            "assertion": {
                "attributes": {"http://schemas.xmlsoap.org/ws/2005/05/identity/claims/givenname": ["Ada", "A."]}
            }
        },
        "TwitterReconcile": {"name": "Ada Lovelace"},
    }
    changed = {}
    for kind, given in inputs.items():
        lambda_id = variables[f"FUSIONAUTH_LAMBDA[{kind}]_ID"]
        made = (await api.get(f"/api/lambda/{lambda_id}")).json()["lambda"]
        assert (made["type"], made["engineType"], made["debug"]) == (kind, "GraalJS", False)
        assert made["name"].startswith("Default ")
        again = await api.put(f"/api/lambda/{lambda_id}", json={"lambda": made})
        assert again.json()["lambda"]["body"] == made["body"]
        user, registration, *_ = await internals.run(
            service, lambdas.invoke, call, lambda_id, kind, {"email": "a@b.c"}, {}, given, None, {}
        )
        assert registration == {}
        assert user.pop("email") == "a@b.c"
        changed[kind] = user
    ada = {"firstName": "Ada", "lastName": "Lovelace"}
    assert changed == {
        "AppleReconcile": ada,
        "FacebookReconcile": {**ada, "imageUrl": "p"},
        "GoogleReconcile": {**ada, "imageUrl": "p"},
        "OpenIDReconcile": {**ada, "birthDate": "1815-12-10"},
        "SAMLv2Reconcile": {"firstName": "Ada"},
        "TwitterReconcile": {"fullName": "Ada Lovelace"},
    }
    await internals.run(service, lambdas.add_defaults, call, {"OpenIDReconcile": lambda_id})
    assert (await api.get(f"/api/lambda/{lambda_id}")).json()["lambda"]["type"] == kind, "nothing is made twice"


async def test_busy_sandbox_refuses_and_changes_nothing(
    service: app.Service, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_given: Any) -> Any:
        raise Unavailable("Too many lambdas at once. Try again.")

    monkeypatch.setattr(internals.store(service, "lambda_runtime").sandbox, "check", full)
    lambda_id = new_id()
    answer = await api.post(f"/api/lambda/{lambda_id}", json=lambda_body())
    assert answer.status_code == 503
    assert answer.json()["generalErrors"][0]["message"] == "Too many lambdas at once. Try again."
    assert (await api.get(f"/api/lambda/{lambda_id}")).status_code == 404


async def test_long_running_lambda_does_not_block_other_requests(api: httpx.AsyncClient) -> None:
    """Verified by the order of completion: other requests complete while one is evaluated."""
    ended: list[str] = []

    async def endless() -> None:
        await api.post("/api/lambda", json=lambda_body(body="for (;;);"))
        ended.append("lambda")

    async def others() -> None:
        for _ in range(5):
            assert (await api.get("/api/system/version")).status_code == 200
        ended.append("others")

    await asyncio.gather(endless(), others())
    assert ended == ["others", "lambda"]
