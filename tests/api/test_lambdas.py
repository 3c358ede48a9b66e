"""/api/lambda: every field, every error, the three patches, search; what uses one, and the default ones."""

from __future__ import annotations

from typing import Any

import httpx

from identity.ids import new_id

Document = dict[str, Any]

POPULATE = "function populate(jwt, user, registration) { jwt.colour = 'blue'; }"
ARGUMENTS = {"populate": "jwt, user", "validate": "result, user", "reconcile": "user, registration"}


def wanted(**members: Any) -> Document:
    return {"lambda": {"name": f"Lambda {new_id()}", "type": "JWTPopulate", "body": POPULATE, **members}}


async def make(api: httpx.AsyncClient, **members: Any) -> Document:
    answer = await api.post("/api/lambda", json=wanted(**members))
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["lambda"])


def errors(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    return {path: [e["code"] for e in entries] for path, entries in answer.json().get("fieldErrors", {}).items()}


def message(answer: httpx.Response, path: str) -> str:
    return str(answer.json()["fieldErrors"][path][0]["message"])


async def test_lambda_comes_back_as_it_was_sent(api: httpx.AsyncClient) -> None:
    lambda_id, body = new_id(), f"\n// A comment\n{POPULATE}\n\n"
    sent = wanted(body=body, debug=True, engineType="GraalJS", name=" Colours ", unknown=1)
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
    assert errors(await api.post(f"/api/lambda/{lambda_id}", json=wanted())) == {"lambdaId": ["[duplicate]lambdaId"]}
    assert (await api.delete(f"/api/lambda/{lambda_id}")).status_code == 200
    assert (await api.get(f"/api/lambda/{lambda_id}")).status_code == 404
    assert (await api.delete(f"/api/lambda/{lambda_id}")).status_code == 404


async def test_debug_is_off_and_the_engine_is_named_where_nothing_is_said(api: httpx.AsyncClient) -> None:
    made = await make(api)
    assert (made["debug"], made["engineType"]) == (False, "GraalJS")
