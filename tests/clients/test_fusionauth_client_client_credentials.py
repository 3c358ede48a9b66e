"""The official Python client, unmodified: tokens of entities and their introspection."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from tests.api.test_entities import make
from tests.api.test_entity_types import make as make_type
from tests.conftest import SUPER_KEY
from tests.relying_party import claims


@pytest.mark.requirement("contract-device-10")
async def test_entity_gets_tokens_in_two_ways(service, api, tenant_api, tenant) -> None:
    kind = await make_type(api, permissions=[{"name": "read"}, {"name": "write"}])
    caller, target = [await make(tenant_api, kind) for _ in range(2)]
    client = FusionAuthClient(SUPER_KEY, service.base_url)
    client.set_tenant_id(tenant["id"])
    scope = f"target-entity:{target['id']}:read"

    def successful(answer: Any) -> Any:
        assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
        return answer.success_response

    def work() -> None:
        grant = {"grant": {"recipientEntityId": caller["id"], "permissions": ["read", "write"]}}
        successful(client.upsert_entity_grant(target["id"], grant))
        named = {"client_id": caller["clientId"], "client_secret": caller["clientSecret"], "scope": scope}
        request = SimpleNamespace(**named, grant_type="client_credentials", tenantId=tenant["id"])
        answers = [client.client_credentials_grant(**named), client.client_credentials_grant_with_request(request)]
        for answer in answers:
            given = successful(answer)
            assert (given["token_type"], given["expires_in"], given["scope"]) == ("Bearer", 3600, scope)
            assert claims(given["access_token"])["permissions"] == {target["id"]: ["read"]}
        refused = client.client_credentials_grant(caller["clientId"], "wrong", scope)
        assert refused.status == 401
        # These two methods send the token alone; an entity has to authenticate (RFC 7662 section 2.1).
        token = successful(answers[0])["access_token"]
        for answer in (
            client.introspect_client_credentials_access_token(token),
            client.introspect_client_credentials_access_token_with_request(
                SimpleNamespace(token=token, tenantId=tenant["id"])
            ),
        ):
            assert answer.status == 401

    await asyncio.to_thread(work)
