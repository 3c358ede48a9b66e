"""The official Python client, unmodified, on lambdas: every method that it has for them."""

from __future__ import annotations

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.clients.test_fusionauth_client_objects import successful, with_client


@pytest.mark.requirement("core-18-lambdas-29")
async def test_the_client_makes_reads_changes_and_removes_lambdas(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name, lambda_id, body = new_id(), new_id(), "function validate(result) {}"
        wanted = {"lambda": {"name": name, "type": "LoginValidation", "body": body, "engineType": "GraalJS"}}
        made = successful(client.create_lambda(wanted, lambda_id))["lambda"]
        assert (made["id"], made["body"], made["debug"]) == (lambda_id, body, False)
        assert successful(client.retrieve_lambda(lambda_id)) == {"lambda": made}
        assert made in successful(client.retrieve_lambdas())["lambdas"]
        of_type = successful(client.retrieve_lambdas_by_type("LoginValidation"))["lambdas"]
        assert made in of_type
        assert {one["type"] for one in of_type} == {"LoginValidation"}
        found = successful(client.search_lambdas({"search": {"name": name, "startRow": 0, "numberOfResults": 1}}))
        assert found == {"total": 1, "lambdas": [made]}
        patched = successful(client.patch_lambda(lambda_id, {"lambda": {"debug": True}}))["lambda"]
        assert (patched["debug"], patched["body"]) == (True, body)
        updated = successful(client.update_lambda(lambda_id, {"lambda": {**wanted["lambda"], "name": f"{name}!"}}))[
            "lambda"
        ]
        assert (updated["name"], updated["debug"]) == (f"{name}!", False)
        refused = client.update_lambda(lambda_id, {"lambda": {**wanted["lambda"], "body": "("}})
        assert refused.status == 400
        assert refused.error_response["fieldErrors"]["lambda.body"][0]["code"] == "[invalid]lambda.body"
        successful(client.delete_lambda(lambda_id))
        assert client.retrieve_lambda(lambda_id).status == 404

    await with_client(service, work)
