"""The official Python client, unmodified, on identity providers, logins through them, and links."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests import internals
from tests.conftest import DEFAULT_TENANT, SUPER_KEY
from tests.fake_provider import make_key, signed

Document = dict[str, Any]


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


def client_of(service: app.Service) -> FusionAuthClient:
    client = FusionAuthClient(SUPER_KEY, service.base_url)
    client.set_tenant_id(DEFAULT_TENANT)
    return client


def openid(name: str, **members: Any) -> Document:
    oauth2 = {"issuer": "https://provider.example.com", "client_id": "client", "client_secret": "secret"}
    return {"identityProvider": {"type": "OpenIDConnect", "name": name, "oauth2": oauth2, **members}}


@pytest.mark.requirement("core-11-25")
async def test_the_client_makes_reads_changes_and_removes_identity_providers(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name, provider_id, domain = new_id(), new_id(), f"{new_id()}.example.com"
        made = successful(client.create_identity_provider(openid(name, domains=[domain], enabled=True), provider_id))
        provider = made["identityProvider"]
        assert (provider["id"], provider["domains"]) == (provider_id, [domain])
        assert successful(client.retrieve_identity_provider(provider_id)) == made
        assert provider in successful(client.retrieve_identity_providers())["identityProviders"]
        assert provider in successful(client.retrieve_identity_provider_by_type("OpenIDConnect"))["identityProviders"]
        found = successful(client.search_identity_providers({"search": {"name": name, "startRow": 0}}))
        assert found == {"identityProviders": [provider], "total": 1}
        found = successful(
            client.search_identity_providers_by_parameters(
                name=name, number_of_results=1, order_by="name ASC", start_row=0, _type="OpenIDConnect"
            )
        )
        assert found == {"identityProviders": [provider], "total": 1}
        looked_up = successful(client.lookup_identity_provider(f"ada@{domain}"))["identityProvider"]
        assert (looked_up["id"], looked_up["name"]) == (provider_id, name)
        by_tenant = successful(client.lookup_identity_provider_by_tenant_id(domain, DEFAULT_TENANT))
        assert by_tenant["identityProvider"] == looked_up
        test = {"identityProviderId": provider_id, "tenantId": DEFAULT_TENANT}
        started = successful(client.start_identity_provider_connection_test(test))["connectionTestId"]
        tested = successful(client.retrieve_identity_provider_connection_test_results(started))
        assert (tested["result"]["identityProviderId"], tested["result"]["steps"]) == (provider_id, [])
        patched = successful(client.patch_identity_provider(provider_id, {"identityProvider": {"debug": True}}))
        assert (patched["identityProvider"]["debug"], patched["identityProvider"]["domains"]) == (True, [domain])
        updated = successful(client.update_identity_provider(provider_id, openid(name, buttonText="Go")))[
            "identityProvider"
        ]
        assert (updated["buttonText"], updated["debug"], updated["domains"]) == ("Go", False, [])
        started = client.start_identity_provider_login({"identityProviderId": provider_id, "applicationId": new_id()})
        assert started.status == 400
        assert "applicationId" in started.error_response["fieldErrors"]
        successful(client.delete_identity_provider(provider_id))
        assert client.retrieve_identity_provider(provider_id).status == 404
        assert client.lookup_identity_provider(domain).status == 404

    await asyncio.to_thread(work, client_of(service))


@pytest.mark.requirement("core-11-51")
async def test_the_client_logs_in_and_links(service: app.Service) -> None:
    key = await make_key("ES256", kid="theirs")
    now = internals.now(service) // 1000
    subject, pending = new_id(), new_id()
    tokens = [
        await signed(key, {"sub": sub, "email": f"{sub}@example.com", "email_verified": True, "exp": now + 300})
        for sub in (subject, pending)
    ]

    def work(client: FusionAuthClient) -> None:
        application_id = successful(client.create_application({"application": {"name": new_id()}}))["application"]["id"]
        wanted = {
            "type": "ExternalJWT", "name": new_id(), "enabled": True, "keys": {"theirs": key["publicKey"]},
            "applicationConfiguration": {application_id: {"enabled": True}},
        }  # fmt: skip
        provider = successful(client.create_identity_provider({"identityProvider": wanted}))["identityProvider"]
        request = {"applicationId": application_id, "identityProviderId": provider["id"], "encodedJWT": tokens[0]}
        user = successful(client.identity_provider_login(request))["user"]
        assert user["email"] == f"{subject}@example.com"
        again = successful(client.reconcile_jwt(request))
        assert (again["user"]["id"], bool(again["token"])) == (user["id"], True)

        link = successful(client.retrieve_user_link(provider["id"], subject, user["id"]))["identityProviderLink"]
        assert (link["userId"], link["displayName"]) == (user["id"], user["email"])
        assert successful(client.retrieve_user_links_by_user_id(user["id"]))["identityProviderLinks"] == [link]
        by_provider = successful(client.retrieve_user_links_by_user_id(user["id"], provider["id"]))
        assert by_provider["identityProviderLinks"] == [link]
        successful(client.delete_user_link(provider["id"], subject, user["id"]))
        assert client.retrieve_user_link(provider["id"], subject, user["id"]).status == 404
        wanted_link = {"identityProviderId": provider["id"], "identityProviderUserId": subject, "userId": user["id"]}
        made = successful(client.create_user_link({"identityProviderLink": wanted_link}))["identityProviderLink"]
        assert {name: made[name] for name in wanted_link} == wanted_link

        strategy = {"identityProvider": {"linkingStrategy": "CreatePendingLink"}}
        successful(client.patch_identity_provider(provider["id"], strategy))
        waiting = client.identity_provider_login({**request, "encodedJWT": tokens[1]})
        assert waiting.status == 232
        pending_id = waiting.success_response["pendingIdPLinkId"]
        shown = successful(client.retrieve_pending_link(pending_id, user["id"]))
        assert shown["linkCount"] == 1
        assert shown["pendingIdPLink"]["identityProviderUserId"] == pending
        completed = {"pendingIdPLinkId": pending_id, "identityProviderLink": {"userId": user["id"]}}
        successful(client.create_user_link(completed))
        second = successful(client.identity_provider_login({**request, "encodedJWT": tokens[1]}))
        assert second["user"]["id"] == user["id"]

    await asyncio.to_thread(work, client_of(service))
