"""Token exchange (RFC 8693) over HTTP: delegation, impersonation, and tokens that are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import relying_party
from tests.api.test_entities import make as make_entity
from tests.api.test_entity_types import make as make_type
from tests.conftest import SUPER_KEY, checking_client
from tests.dpop import ClientKey
from tests.relying_party import PASSWORD, RelyingParty, claims

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPE = "urn:ietf:params:oauth:token-type:"
ORDERS, BILLING = "https://orders.example.com/", "https://billing.example.com/"
TOKEN = "/oauth2/token"


@dataclasses.dataclass
class Setup:
    """A front end that users log in to, and a gateway that exchanges its tokens; both of one tenant."""

    front_end: RelyingParty
    gateway: RelyingParty
    http: httpx.AsyncClient

    async def tokens(self, rp: RelyingParty | None = None, headers: Any = None, **form: str) -> dict[str, Any]:
        """Tokens of a user of the front end, or of the gateway."""
        rp = rp or self.front_end
        merged = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD,
                  "scope": "openid email offline_access", "client_id": rp.client_id, "client_secret": rp.secret,
                  **form}  # fmt: skip
        answer = await self.http.post(TOKEN, data=merged, headers=headers or {})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def subject(self, **form: str) -> str:
        return (await self.tokens(**form))["access_token"]

    async def exchange(self, subject: str, *, headers: Any = None, **form: Any) -> httpx.Response:
        merged = {"grant_type": GRANT, "subject_token": subject, "subject_token_type": f"{TYPE}access_token",
                  "client_id": self.gateway.client_id, "client_secret": self.gateway.secret, **form}  # fmt: skip
        given = {name: value for name, value in merged.items() if value is not None}
        return await self.http.post(TOKEN, data=given, headers=headers or {})

    async def exchanged(self, subject: str, **form: Any) -> dict[str, Any]:
        answer = await self.exchange(subject, **form)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def allow(self, **configuration: Any) -> None:
        await self.gateway.configure(tokenExchangeConfiguration=configuration)


@pytest.fixture
async def setup(api: httpx.AsyncClient, http: httpx.AsyncClient) -> Setup:
    front_end = await relying_party.make(api, enabledGrants=["password", "refresh_token"])
    policy = {"audiences": [ORDERS, BILLING], "subjectAudiences": [front_end.client_id]}
    gateway = await relying_party.make(
        api, tenant=front_end.tenant, enabledGrants=[GRANT, "password"], tokenExchangeConfiguration=policy
    )
    return Setup(front_end, gateway, http)


def refused(answer: httpx.Response, error: str, reason: str | None, status: int = 400) -> None:
    assert answer.status_code == status, answer.text
    assert (answer.json()["error"], answer.json().get("error_reason")) == (error, reason)


@pytest.mark.requirement("oauth-12-31", "oauth-12-32")
async def test_delegated_token_names_user_actor_and_target(setup, http):
    subject = await setup.subject()
    response = await setup.exchanged(subject, audience=ORDERS, scope="openid email")
    assert response.keys() == {"access_token", "expires_in", "issued_token_type", "token_type", "scope"}
    assert (response["issued_token_type"], response["token_type"]) == (f"{TYPE}access_token", "Bearer")
    token = claims(response["access_token"])
    assert token["sub"] == setup.front_end.user["id"]
    assert token["aud"] == [setup.gateway.client_id, ORDERS]
    assert token["act"] == {"sub": setup.gateway.client_id}
    assert (token["scope"], response["scope"]) == ("openid email", "openid email")
    assert token["gty"] == ["password", GRANT]
    assert token["auth_time"] == claims(subject)["auth_time"]
    assert token["exp"] <= claims(subject)["exp"]
    form = {"client_id": setup.gateway.client_id, "client_secret": setup.gateway.secret}
    shown = (await http.post("/oauth2/introspect", data={**form, "token": response["access_token"]})).json()
    assert (shown["active"], shown["act"]) == (True, token["act"])
    answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {response['access_token']}"})
    assert answer.status_code == 200


@pytest.mark.requirement("oauth-12-31")
async def test_without_a_target_the_token_is_for_the_client_alone(setup):
    response = await setup.exchanged(await setup.subject())
    token = claims(response["access_token"])
    assert token["aud"] == setup.gateway.client_id
    assert token["scope"] == "openid email"
    assert "refresh_token" not in response
    assert "id_token" not in response


@pytest.mark.requirement("oauth-12-31")
@pytest.mark.parametrize("token_type", ["access_token", "jwt"])
async def test_each_type_of_subject_token(setup, token_type):
    tokens = await setup.tokens()
    response = await setup.exchanged(tokens["access_token"], subject_token_type=TYPE + token_type,
                                     requested_token_type=TYPE + token_type)  # fmt: skip
    assert response["issued_token_type"] == TYPE + token_type


@pytest.mark.requirement("oauth-12-31")
async def test_id_token_is_exchanged_as_such_only(setup):
    tokens = await setup.tokens()
    for token_type in ("id_token", "jwt"):
        response = await setup.exchanged(tokens["id_token"], subject_token_type=TYPE + token_type)
        assert claims(response["access_token"])["sub"] == setup.front_end.user["id"]
    refused(await setup.exchange(tokens["id_token"]), "invalid_request", "access_token_invalid")
    answer = await setup.exchange(tokens["access_token"], subject_token_type=f"{TYPE}id_token")
    refused(answer, "invalid_request", "access_token_invalid")
    answer = await setup.exchange(tokens["refresh_token"], subject_token_type=f"{TYPE}refresh_token")
    refused(answer, "invalid_request", "unknown")


@pytest.mark.requirement("oauth-12-32")
async def test_actor_token_makes_its_user_the_actor(setup):
    actor = await setup.tokens(setup.gateway)
    form = {"actor_token": actor["access_token"], "actor_token_type": f"{TYPE}access_token"}
    response = await setup.exchanged(await setup.subject(), **form)
    assert claims(response["access_token"])["act"] == {"sub": setup.gateway.user["id"]}
    for missing in form:
        answer = await setup.exchange(await setup.subject(), **{**form, missing: None})
        refused(answer, "invalid_request", "unknown")
    answer = await setup.exchange(await setup.subject(), **{**form, "actor_token": response["access_token"]})
    refused(answer, "invalid_request", "access_token_invalid")


@pytest.mark.requirement("oauth-12-32")
async def test_entity_is_an_actor_and_no_subject(setup, api, http):
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": setup.front_end.tenant["id"]}
    async with checking_client(str(http.base_url), headers=headers) as inside:
        kind = await make_type(api, permissions=[{"name": "act"}])
        service, target = [await make_entity(inside, kind) for _ in range(2)]
        grant = {"grant": {"recipientEntityId": service["id"], "permissions": ["act"]}}
        assert (await inside.post(f"/api/entity/{target['id']}/grant", json=grant)).status_code == 200
    form = {"grant_type": "client_credentials", "client_id": service["clientId"],
            "client_secret": service["clientSecret"], "scope": f"target-entity:{target['id']}:act"}  # fmt: skip
    entity_token = (await http.post(TOKEN, data=form)).json()["access_token"]
    actor = {"actor_token": entity_token, "actor_token_type": f"{TYPE}access_token"}
    refused(await setup.exchange(await setup.subject(), **actor), "invalid_request", "access_token_invalid")
    await setup.allow(subjectAudiences=[setup.front_end.client_id, target["id"]])
    response = await setup.exchanged(await setup.subject(), **actor)
    assert claims(response["access_token"])["act"] == {"sub": service["id"]}
    refused(await setup.exchange(entity_token), "invalid_request", "access_token_invalid")


@pytest.mark.requirement("oauth-12-32")
async def test_chain_of_actors_is_bounded(setup):
    first = await setup.exchanged(await setup.subject())
    second = await setup.exchanged(first["access_token"])
    client_id = setup.gateway.client_id
    assert claims(second["access_token"])["act"] == {"sub": client_id, "act": {"sub": client_id}}
    refused(await setup.exchange(second["access_token"]), "invalid_request", "unknown")


@pytest.mark.requirement("oauth-12-32")
async def test_impersonation_needs_permission_and_keeps_earlier_actors(setup):
    delegated = (await setup.exchanged(await setup.subject()))["access_token"]
    await setup.allow(impersonationEnabled=True)
    response = await setup.exchanged(await setup.subject())
    assert "act" not in claims(response["access_token"])
    response = await setup.exchanged(delegated)
    assert claims(response["access_token"])["act"] == claims(delegated)["act"]


async def lambda_of(setup: Setup, api: httpx.AsyncClient, body: str) -> None:
    """Populate the access tokens of the front end."""
    body = f"function populate(jwt, user, registration) {{ {body} }}"
    made = await api.post("/api/lambda", json={"lambda": {"name": new_id()[:20], "type": "JWTPopulate", "body": body}})
    configuration = {"accessTokenPopulateId": made.json()["lambda"]["id"]}
    path = f"/api/application/{setup.front_end.client_id}"
    await setup.front_end.patch(path, {"application": {"lambdaConfiguration": configuration}})


@pytest.mark.requirement("oauth-12-32")
async def test_may_act_of_the_subject_token_is_enforced(setup, api):
    await lambda_of(setup, api, f"jwt.may_act = {{sub: '{setup.gateway.client_id}'}};")
    await setup.exchanged(await setup.subject())
    await lambda_of(setup, api, f"jwt.may_act = {{sub: '{setup.front_end.client_id}'}};")
    refused(await setup.exchange(await setup.subject()), "invalid_request", "unknown")
    await setup.allow(impersonationEnabled=True)
    refused(await setup.exchange(await setup.subject()), "invalid_request", "unknown")


@pytest.mark.requirement("oauth-12-32")
async def test_lambda_cannot_invent_an_actor(setup, api):
    await lambda_of(setup, api, "jwt.act = {sub: 'x'};")
    assert "act" not in claims(await setup.subject())


@pytest.mark.requirement("oauth-12-31")
async def test_authority_is_never_widened(setup):
    subject = await setup.subject()
    refused(await setup.exchange(subject, scope="email profile"), "invalid_scope", "unknown_scope")
    refused(await setup.exchange(subject, scope="offline_access"), "invalid_scope", "unknown_scope")
    refused(await setup.exchange(subject, audience="https://unknown.example.com/"), "invalid_target", None)
    refused(await setup.exchange(subject, audience=[ORDERS, setup.front_end.client_id]), "invalid_target", None)
    await setup.gateway.configure(authorizedResourceUris=[BILLING])
    refused(await setup.exchange(subject, resource=ORDERS), "invalid_target", None)
    narrowed = await setup.exchanged(subject, audience=ORDERS, resource=BILLING, scope="email")
    assert claims(narrowed["access_token"])["aud"] == [setup.gateway.client_id, ORDERS, BILLING]
    refused(await setup.exchange(narrowed["access_token"], scope="openid"), "invalid_scope", "unknown_scope")
    for form in ({"requested_token_type": f"{TYPE}refresh_token"}, {"subject_token_type": None},
                 {"subject_token": None}, {"subject_token_type": f"{TYPE}saml2"}):  # fmt: skip
        refused(await setup.exchange(subject, **form), "invalid_request", "unknown")


@pytest.mark.requirement("oauth-12-31")
async def test_lifetime_ends_with_the_subject_token(setup, clock):
    subject = await setup.subject()
    clock.advance(seconds=3000)
    response = await setup.exchanged(subject)
    assert response["expires_in"] <= 600
    assert claims(response["access_token"])["exp"] <= claims(subject)["exp"]
    clock.advance(seconds=601)
    refused(await setup.exchange(subject), "invalid_request", "access_token_expired")


@pytest.mark.requirement("oauth-12-33")
async def test_clients_that_may_not_exchange(setup):
    subject = await setup.subject()
    refused(await setup.exchange(subject, client_secret=None), "invalid_client", "client_authentication_missing", 401)
    refused(await setup.exchange(subject, client_secret="x"), "invalid_client", "invalid_client_authentication", 401)
    await setup.gateway.configure(clientAuthenticationPolicy="NotRequired")
    refused(await setup.exchange(subject, client_secret=None), "invalid_client", "client_authentication_missing", 401)
    await setup.gateway.configure(relationship="ThirdParty")
    refused(await setup.exchange(subject), "unauthorized_client", "grant_type_disabled")
    await setup.gateway.configure(relationship="FirstParty", enabledGrants=["password"])
    refused(await setup.exchange(subject), "unauthorized_client", "grant_type_disabled")


@pytest.mark.requirement("oauth-12-33")
async def test_tokens_that_are_refused(setup, api, http):
    subject = await setup.subject()
    await setup.allow(subjectAudiences=[])
    refused(await setup.exchange(subject), "invalid_request", "access_token_invalid")
    await setup.allow(subjectAudiences=[setup.front_end.client_id])
    refused(await setup.exchange("x"), "invalid_request", "access_token_malformed")
    refused(await setup.exchange(subject[:-6] + "AAAAAA"), "invalid_request", "access_token_invalid")
    unsigned = subject.split(".")
    refused(await setup.exchange(f"eyJhbGciOiJub25lIn0.{unsigned[1]}."), "invalid_request", "access_token_invalid")
    foreign = await relying_party.make(api, enabledGrants=["password"])
    await setup.allow(subjectAudiences=[setup.front_end.client_id, foreign.client_id])
    subject = (await setup.tokens(foreign))["access_token"]
    refused(await setup.exchange(subject), "invalid_request", "access_token_invalid")


@pytest.mark.requirement("oauth-12-33")
async def test_revoked_tokens_and_locked_users(setup, http):
    tokens = await setup.tokens()
    exchanged = (await setup.exchanged(tokens["access_token"]))["access_token"]
    credentials = {"client_id": setup.front_end.client_id, "client_secret": setup.front_end.secret}
    await http.post("/oauth2/revoke", data={**credentials, "token": tokens["refresh_token"]})
    refused(await setup.exchange(tokens["access_token"]), "invalid_request", "access_token_invalid")
    answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {exchanged}"})
    assert answer.status_code == 401
    subject = await setup.subject()
    headers = {"X-FusionAuth-TenantId": setup.front_end.tenant["id"]}
    await setup.front_end.api.delete(f"/api/user/{setup.front_end.user['id']}", headers=headers)
    refused(await setup.exchange(subject), "invalid_request", "access_token_invalid")


@pytest.mark.requirement("oauth-12-33")
async def test_user_has_to_be_registered_if_the_application_requires_it(setup):
    await setup.gateway.configure(requireRegistration=True)
    refused(await setup.exchange(await setup.subject()), "invalid_request", "registration_required")


@pytest.mark.requirement("oauth-12-33")
async def test_bound_tokens_need_the_proof_of_their_key(setup, http):
    key = ClientKey()
    tokens = await setup.tokens(headers=key.header(http, "POST", TOKEN))
    for headers in ({}, ClientKey().header(http, "POST", TOKEN)):
        answer = await setup.exchange(tokens["access_token"], headers=headers)
        refused(answer, "invalid_request", "access_token_invalid")
    response = await setup.exchanged(tokens["access_token"], headers=key.header(http, "POST", TOKEN))
    assert response["token_type"] == "DPoP"
    assert claims(response["access_token"])["cnf"] == {"jkt": key.thumbprint}
    bound = await setup.exchanged(await setup.subject(), headers=key.header(http, "POST", TOKEN))
    assert claims(bound["access_token"])["cnf"] == {"jkt": key.thumbprint}


@pytest.mark.requirement("oauth-12-32")
async def test_audit_log_has_who_acted_for_whom(setup, api):
    token = claims((await setup.exchanged(await setup.subject(), audience=ORDERS))["access_token"])
    query = {"message": "Token exchange", "tenantId": setup.front_end.tenant["id"]}
    headers = {"X-FusionAuth-TenantId": setup.front_end.tenant["id"]}
    (row,) = (await api.get("/api/system/audit-log/search", params=query, headers=headers)).json()["auditLogs"]
    assert row["data"] == {
        "act": token["act"],
        "applicationId": setup.gateway.client_id,
        "audience": [ORDERS],
        "scopes": ["openid", "email"],
        "tokenId": token["jti"],
        "userId": token["sub"],
    }


@pytest.mark.requirement("oauth-12-31")
async def test_metadata_lists_the_grant(http):
    assert GRANT in (await http.get("/.well-known/openid-configuration")).json()["grant_types_supported"]


@pytest.mark.requirement("oauth-12-33")
@pytest.mark.parametrize("impersonates", [False, True])
async def test_exchanged_token_is_not_traded_for_more(setup, http, browser, impersonates):
    await setup.front_end.configure_tenant(ssoConfiguration={"allowAccessTokenBootstrap": True})
    await setup.allow(impersonationEnabled=impersonates)
    token = (await setup.exchanged(await setup.subject()))["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert (await http.get("/oauth2/userinfo", headers=headers)).status_code == 200
    assert (await http.get("/api/jwt/validate", headers=headers)).status_code == 200
    query = {"applicationId": setup.front_end.client_id}
    assert (await http.get("/api/jwt/issue", params=query, headers=headers)).status_code == 401
    await setup.gateway.configure(enabledGrants=[GRANT, "password", "authorization_code"])
    await browser.get("/oauth2/authorize", params=setup.gateway.query(), headers=headers)
    assert "fusionauth.sso" not in browser.cookies
    own = (await setup.tokens(setup.gateway))["access_token"]
    headers = {"Authorization": f"Bearer {own}"}
    await browser.get("/oauth2/authorize", params=setup.gateway.query(), headers=headers)
    assert "fusionauth.sso" in browser.cookies
