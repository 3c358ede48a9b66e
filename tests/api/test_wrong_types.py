"""Every member of every schema of the API, sent as what it is not: 400 with an Errors body or 200, never 500.

Systematic instead of random: each member of a file of schemas/api/ is replaced by each of a list of values, in a
request that is otherwise right, and what was stored must still be readable afterwards.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from identity import app, schemas
from identity.ids import new_id
from tests import internals, relying_party
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY, checking_client
from tests.dispatch import in_process

Document = dict[str, Any]
JSON_PATCH = {"Content-Type": "application/json-patch+json"}

VALUES: list[Any] = [
    None,
    True,
    -1,
    2**63 - 1,
    1e300,
    "",
    "a\x00b",
    "é" * 300,
    "00000000-0000-4000-8000-000000000000",
    [],
    [None, 1, "x", {}, []],
    {},
    {"$ne": None, "a.b": {"$where": "1"}},
]


@functools.cache
def paths(name: str) -> tuple[tuple[str, ...], ...]:
    """The paths of every member of a schema file, a list item as `0`, one entry of a free map as `x`."""

    def walk(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if path:
            yield path
        for member, child in node.get("properties", {}).items():
            yield from walk(child, (*path, member))
        if isinstance(node.get("items"), dict):
            yield from walk(node["items"], (*path, "0"))
        if isinstance(node.get("additionalProperties"), dict):
            yield from walk(node["additionalProperties"], (*path, "x"))

    return tuple(walk(schemas.load(name), ()))


def with_value(document: Document, path: tuple[str, ...], value: Any) -> Document:
    """The document with one member replaced, whatever stood there."""
    changed: Any = copy.deepcopy(document)
    at = changed
    for step, following in zip(path, (*path[1:], None), strict=True):
        fresh: Any = value if following is None else ([] if following == "0" else {})
        if isinstance(at, list):
            if not at:
                at.append(fresh)
            elif following is None or not isinstance(at[0], type(fresh)):
                at[0] = fresh
            at = at[0]
        else:
            if following is None or not isinstance(at.get(step), type(fresh)):
                at[step] = fresh
            at = at[step]
    return dict(changed)


class Case:
    """One schema: where it is posted and put, and a document that is right."""

    def __init__(self, schema: str, path: str, wrapper: str, members: Document, *, update: str | None = None) -> None:
        self.schema, self.path, self.wrapper, self.members = schema, path, wrapper, members
        self.update = path if update is None else update

    def __repr__(self) -> str:
        return self.path


CASES = [
    Case("api/api-key.json", "/api/api-key", "apiKey", {}),
    Case("api/application.json", "/api/application", "application", {"name": "#"}),
    Case("api/application-role.json", "/api/application/@/role", "role", {"name": "#"}),
    Case("api/application-scope.json", "/api/application/@/scope", "scope", {"name": "#"}),
    Case("api/group.json", "/api/group", "group", {"name": "#"}),
    Case("api/consent.json", "/api/consent", "consent", {"name": "#", "defaultMinimumAgeForSelfConsent": 13}),
    Case(
        "api/ip-access-control-list.json",
        "/api/ip-acl",
        "ipAccessControlList",
        {"name": "#", "entries": [{"startIPAddress": "*", "action": "Allow"}]},
    ),
    Case("api/key.json", "/api/key/generate", "key", {"name": "#", "algorithm": "HS256"}, update="/api/key"),
    Case(
        "api/key.json",
        "/api/key/import",
        "key",
        {"name": "#", "algorithm": "HS256", "type": "HMAC", "secret": "x" * 40},
        update="/api/key",
    ),
    Case("api/tenant.json", "/api/tenant", "tenant", {"name": "#"}),
    Case("api/user-action.json", "/api/user-action", "userAction", {"name": "#"}),
    Case("api/user-action-reason.json", "/api/user-action-reason", "userActionReason", {"code": "#", "text": "#"}),
    Case("api/user.json", "/api/user", "user", {"username": "#", "password": "password"}),
    Case(
        "api/webhook.json",
        "/api/webhook",
        "webhook",
        {"url": "https://example.com", "connectTimeout": 1000, "readTimeout": 1000},
    ),
]


def valid_document(case: Case) -> Document:
    """A document that is accepted, under a name of its own."""
    return {case.wrapper: {k: new_id() if v == "#" else v for k, v in copy.deepcopy(case.members).items()}}


@pytest.fixture
async def client(service: app.Service, api: httpx.AsyncClient) -> AsyncIterator[httpx.AsyncClient]:
    """A caller with all permissions, in a tenant with cheap password hashing."""
    tenant = await relying_party.make_tenant(api, passwordEncryptionConfiguration=relying_party.CHEAP)
    headers = {"Authorization": MANAGER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    async with checking_client(service.base_url, transport=in_process(service), headers=headers) as client:
        yield client


def is_refused(service: app.Service, case: Case, body: Document) -> bool:
    """Whether the schema alone refuses a body; each of its errors has a code and a message.

    The errors are those of the body without defaults: to find them among all defaults takes ten times as long.
    """
    shape = internals.schemas(service)[case.schema]
    tidy = schemas._tidied(shape.schema, copy.deepcopy(body))
    if shape._prevalidator.accepts(schemas.fill(shape.schema, copy.deepcopy(tidy))):
        return False
    errors = list(shape.errors(tidy))
    assert errors
    assert all(error.code.startswith("[") and error.message for error in errors)
    return True


REFUSED_TO_SEND = 10
"""What a schema refuses is refused in one place for all members: one such request for so many members is enough."""


@pytest.mark.parametrize("case", CASES, ids=repr)
async def test_wrong_values_are_400_or_accepted_and_never_500(service, client, case: Case) -> None:
    """The checking client asserts the status, and the shape of every 400."""
    made = await client.post("/api/application", json={"application": {"name": new_id()}})
    path, update = (text.replace("@", made.json()["application"]["id"]) for text in (case.path, case.update))
    wrong: list[str] = []
    answer = await client.post(path, json=valid_document(case))
    default = (await client.get("/api/key/search", params={"name": "Default signing key"})).json()["keys"][0]["id"]
    keys = {"jwtConfiguration": {"accessTokenKeyId": default, "idTokenKeyId": default}}
    own_path = f"{update}/{answer.json()[case.wrapper]['id']}"

    async def attempt(method: str, where: str, body: Any, label: str, headers: dict[str, str] | None = None) -> None:
        try:
            answer = await client.request(method, where, json=body, headers=headers)
            assert answer.status_code in {200, 400, 405}, answer.status_code
        except (AssertionError, httpx.HTTPError) as error:
            wrong.append(f"{method} {label}: {error}")

    for number, steps in enumerate(paths(case.schema)):
        label, pointer = ".".join(steps), "/" + "/".join(steps)
        # Each member meets a third of the values, each value every third member.
        bodies = [(with_value(valid_document(case), steps, value), value) for value in VALUES[number % 3 :: 3]]
        refused = [one for one in bodies if is_refused(service, case, one[0])]
        sent = [one for one in bodies if one not in refused]
        for body, value in sent + (refused[:1] if number % REFUSED_TO_SEND == 0 else []):
            await attempt("PUT", own_path, body, f"{label} = {value!r:.40}")
        value = VALUES[number % len(VALUES)]
        body = with_value(valid_document(case), steps, value)
        is_taken = not is_refused(service, case, body)
        if is_taken:
            if case.wrapper == "tenant" and steps[1:2] != ("jwtConfiguration",):
                body["tenant"] |= keys  # or one is generated for each
            await attempt("POST", path, body, f"{label} = {value!r:.40}")
        if is_taken or number % REFUSED_TO_SEND == 0:
            patch = [{"op": "add", "path": pointer, "value": value}]
            await attempt("PATCH", own_path, patch, f"{label} = {value!r:.40}", JSON_PATCH)
    assert not wrong
    if case.wrapper != "role":
        shown = await client.get(own_path)
        assert shown.status_code == 200
    listed = await client.get(update if "@" not in case.update else "/api/application")
    assert listed.status_code in {200, 400}


PAGE = {"numberOfResults": 1}
"""Pages of one result: the default of 25 objects takes most of the time of a search."""


@pytest.mark.parametrize(
    "path", ["webhook", "application", "consent", "group", "group/member", "tenant", "ip-acl", "key", "user"]
)
async def test_wrong_search_criteria_are_400_or_ignored(service, path: str) -> None:
    names = (
        "description", "url", "tenantId", "name", "state", "type", "algorithm", "orderBy", "startRow",
        "numberOfResults", "ids", "query", "queryString", "sortFields", "nextResults", "accurateTotal",
    )  # fmt: skip
    headers = {"Authorization": SUPER_KEY}
    async with checking_client(service.base_url, transport=in_process(service), headers=headers) as client:
        for number, name in enumerate(names):
            # Each name meets half of the values here, and the other half at the next path.
            for value in VALUES[(number + len(path)) % 2 :: 2]:
                answer = await client.post(f"/api/{path}/search", json={"search": {**PAGE, name: value}})
                assert answer.status_code in {200, 400}, (name, value)
                if isinstance(value, str | bool | int):
                    answer = await client.get(f"/api/{path}/search", params={**PAGE, name: str(value)})
                    assert answer.status_code in {200, 400}, (name, value)
        for value in VALUES:
            answer = await client.post(f"/api/{path}/search", json={"search": value})
            assert answer.status_code in {200, 400}, value


@pytest.mark.requirement("core-18-groups-11")
@pytest.mark.parametrize("schema", ["api/group-members.json", "api/group-members-removal.json"])
async def test_wrong_group_members_are_400_or_accepted(service, schema: str) -> None:
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    methods = ("POST", "PUT") if schema == "api/group-members.json" else ("DELETE",)
    async with checking_client(service.base_url, headers=headers) as client:
        group_id = (await client.post("/api/group", json={"group": {"name": new_id()}})).json()["group"]["id"]
        for steps in paths(schema):
            for value in VALUES:
                body = with_value({}, tuple(group_id if step == "x" else step for step in steps), value)
                for method in methods:
                    answer = await client.request(method, "/api/group/member", json=body)
                    assert answer.status_code in {200, 400}, (method, body)
        assert (await client.get(f"/api/group/{group_id}")).status_code == 200
