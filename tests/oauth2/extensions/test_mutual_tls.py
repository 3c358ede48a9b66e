"""Mutual TLS (RFC 8705) over HTTP: client authentication, bound tokens, and headers of strangers."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.web import client_address
from tests import certificates, client_signer, relying_party
from tests.certificates import Certificate
from tests.dpop import ClientKey
from tests.relying_party import PASSWORD, RelyingParty, claims

TOKEN, USERINFO = "/oauth2/token", "/oauth2/userinfo"
GRANTS = ["password", "refresh_token", "authorization_code"]
NAME = {"type": "san_dns", "value": "client.example.com"}
BOUND = {"tlsClientCertificateBoundAccessTokens": True}


@pytest.fixture
def certificate() -> Certificate:
    """One that the configured authority issued."""
    return certificates.make("client", certificates.authority(), name="client.example.com")


@dataclasses.dataclass
class Client:
    """A client whose requests come through a proxy of ours, with a certificate."""

    rp: RelyingParty
    http: httpx.AsyncClient

    async def ask(self, certificate: Certificate | None, *, headers: Any = None, **form: Any) -> httpx.Response:
        """A token request by the password grant, without a secret."""
        merged = {"grant_type": "password", "username": self.rp.login_id, "password": PASSWORD,
                  "scope": "openid offline_access", "client_id": self.rp.client_id, **form}  # fmt: skip
        given = {name: value for name, value in merged.items() if value is not None}
        return await self.http.post(TOKEN, data=given, headers={**sent(certificate), **(headers or {})})

    async def tokens(self, certificate: Certificate | None, **form: Any) -> dict[str, Any]:
        answer = await self.ask(certificate, **form)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refresh(self, certificate: Certificate | None, value: str) -> httpx.Response:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": value,
            "scope": None,
            "username": None,
            "password": None,
        }
        return await self.ask(certificate, **form)

    async def userinfo(self, certificate: Certificate | None, token: str) -> httpx.Response:
        return await self.http.get(USERINFO, headers={**sent(certificate), "Authorization": f"Bearer {token}"})


def sent(certificate: Certificate | None) -> dict[str, str]:
    return {} if certificate is None else {"Client-Cert": certificate.client_cert}


async def make(api: httpx.AsyncClient, http: httpx.AsyncClient, **oauth: Any) -> Client:
    return Client(await relying_party.make(api, enabledGrants=GRANTS, **oauth), http)


def refused(answer: httpx.Response, error: str, reason: str | None, status: int = 401) -> None:
    assert answer.status_code == status, answer.text
    assert (answer.json()["error"], answer.json().get("error_reason")) == (error, reason)


async def pki(api: httpx.AsyncClient, http: httpx.AsyncClient, **oauth: Any) -> Client:
    methods = {"clientAuthenticationMethods": ["tls_client_auth"], "tlsClientAuthConfiguration": NAME}
    return await make(api, http, **methods, **oauth)


@pytest.fixture
async def stranger(service) -> AsyncIterator[httpx.AsyncClient]:
    """A client that is none of our proxies."""
    transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(transport=transport, base_url=service.base_url) as client:
        yield client


@pytest.mark.requirement("oauth-12-35")
async def test_certificate_of_the_authority_authenticates(api, http, certificate):
    client = await pki(api, http)
    tokens = await client.tokens(certificate)
    assert "cnf" not in claims(tokens["access_token"])
    assert (await client.refresh(certificate, tokens["refresh_token"])).status_code == 200
    form = {"client_id": client.rp.client_id, "token": tokens["access_token"]}
    answer = await http.post("/oauth2/introspect", data=form, headers=sent(certificate))
    assert answer.json()["active"] is True
    assert (await http.post("/oauth2/revoke", data=form, headers=sent(certificate))).status_code == 200


@pytest.mark.requirement("oauth-12-35")
async def test_other_certificates_do_not_authenticate(api, http, certificate):
    client = await pki(api, http)
    tokens = await client.tokens(certificate)
    refused(await client.ask(None), "invalid_client", "client_authentication_missing")
    answer = await client.ask(None, client_secret=client.rp.secret)
    refused(answer, "invalid_client", "invalid_client_authentication_scheme")
    forged = certificates.make("Test Authority", address=None, is_authority=True)
    for wrong in (
        certificates.make("client", certificates.authority(), name="other.example.com"),
        certificates.make("client", forged, name="client.example.com"),
        certificates.make("client", name="client.example.com"),
        certificates.make("client", certificates.authority(), name="client.example.com", days=(-3, -1)),
    ):
        refused(await client.ask(wrong), "invalid_client", "invalid_client_authentication")
        refused(await client.refresh(wrong, tokens["refresh_token"]), "invalid_client", "invalid_client_authentication")


@pytest.mark.requirement("oauth-12-35")
async def test_self_signed_certificate_authenticates_by_its_registered_key(api, http, certificate):
    own = certificates.make("anything", days=(-3, -1))
    methods = {"clientAuthenticationMethods": ["self_signed_tls_client_auth"], "jwks": {"keys": [own.jwk]}}
    client = await make(api, http, **methods)
    await client.tokens(own)
    refused(await client.ask(certificate), "invalid_client", "invalid_client_authentication")
    refused(await client.ask(None), "invalid_client", "client_authentication_missing")


@pytest.mark.requirement("oauth-12-35")
@pytest.mark.parametrize(("oauth", "field"), [
    ({"clientAuthenticationMethods": ["tls_client_auth"]}, "tlsClientAuthConfiguration"),
    ({"clientAuthenticationMethods": ["self_signed_tls_client_auth"]}, "jwks"),
    ({"tlsClientAuthConfiguration": {"type": "subject_dn", "value": "client"}}, "tlsClientAuthConfiguration.value"),
    ({"tlsClientAuthConfiguration": {"type": "san_ip", "value": "client"}}, "tlsClientAuthConfiguration.value"),
])  # fmt: skip
async def test_incomplete_settings_are_rejected(api, oauth, field):
    body = {"application": {"name": "incomplete", "oauthConfiguration": oauth}}
    answer = await api.post("/api/application", json=body)
    assert answer.status_code == 400
    assert f"application.oauthConfiguration.{field}" in answer.json()["fieldErrors"]


@pytest.mark.requirement("oauth-12-36")
async def test_tokens_are_bound_to_the_certificate(api, http, certificate):
    client = await pki(api, http, **BOUND)
    tokens = await client.tokens(certificate)
    assert tokens["token_type"] == "Bearer"
    assert claims(tokens["access_token"])["cnf"] == {"x5t#S256": certificate.thumbprint}
    assert (await client.userinfo(certificate, tokens["access_token"])).status_code == 200
    other = certificates.make("client", certificates.authority(), name="client.example.com")
    for wrong in (None, other):
        refused(await client.userinfo(wrong, tokens["access_token"]), "invalid_token", "access_token_invalid")
    answer = await http.get("/api/jwt/validate", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    assert answer.status_code == 401
    form = {"client_id": client.rp.client_id, "token": tokens["access_token"]}
    shown = (await http.post("/oauth2/introspect", data=form, headers=sent(certificate))).json()
    assert shown["cnf"] == {"x5t#S256": certificate.thumbprint}
    assert "token_type" not in shown
    refreshed = (await client.refresh(other, tokens["refresh_token"])).json()
    assert claims(refreshed["access_token"])["cnf"] == {"x5t#S256": other.thumbprint}


@pytest.mark.requirement("oauth-12-36")
async def test_public_client_binds_its_refresh_token(api, http):
    own, other = certificates.make("own"), certificates.make("other")
    client = await make(api, http, clientAuthenticationPolicy="NotRequired", **BOUND)
    tokens = await client.tokens(own)
    refused(await client.refresh(other, tokens["refresh_token"]), "invalid_grant", "unknown", 400)
    refused(await client.refresh(None, tokens["refresh_token"]), "invalid_request", "unknown", 400)
    refreshed = (await client.refresh(own, tokens["refresh_token"])).json()
    assert claims(refreshed["access_token"])["cnf"] == {"x5t#S256": own.thumbprint}
    await client.rp.configure(tlsClientCertificateBoundAccessTokens=False)
    refused(await client.refresh(None, tokens["refresh_token"]), "invalid_grant", "unknown", 400)


@pytest.mark.requirement("oauth-12-36")
async def test_bound_client_without_a_certificate_gets_no_token(api, http, browser, certificate):
    client = await make(api, http, **BOUND)
    refused(await client.ask(None, client_secret=client.rp.secret), "invalid_request", "unknown", 400)
    code = await client.rp.code(browser)
    refused(await client.rp.exchange(http, code), "invalid_request", "unknown", 400)
    tokens = await client.tokens(certificate, client_secret=client.rp.secret)
    assert claims(tokens["access_token"])["cnf"] == {"x5t#S256": certificate.thumbprint}


@pytest.mark.requirement("oauth-12-36")
async def test_token_can_be_bound_to_a_key_as_well(api, http, certificate):
    client, key = await pki(api, http, **BOUND), ClientKey()
    tokens = await client.tokens(certificate, headers=key.header(http, "POST", TOKEN))
    assert tokens["token_type"] == "DPoP"
    assert claims(tokens["access_token"])["cnf"] == {"jkt": key.thumbprint, "x5t#S256": certificate.thumbprint}
    headers = key.shown(http, tokens["access_token"], USERINFO)
    refused(await http.get(USERINFO, headers=headers), "invalid_token", "access_token_invalid")
    headers = {**key.shown(http, tokens["access_token"], USERINFO), **sent(certificate)}
    assert (await http.get(USERINFO, headers=headers)).status_code == 200


@pytest.mark.requirement("oauth-12-38")
async def test_proof_may_be_for_the_alias_that_the_request_came_by(api, http, certificate):
    client, key = await pki(api, http), ClientKey()
    alias, by_alias = "https://mtls.example.com", {"X-Forwarded-Host": "MTLS.example.com", "X-Forwarded-Proto": "https"}
    tokens = await client.tokens(certificate, headers={**by_alias, "DPoP": key.proof("POST", alias + TOKEN)})
    assert tokens["token_type"] == "DPoP"
    token = tokens["access_token"]
    authorization = {"Authorization": f"DPoP {token}"}
    proof = {"DPoP": key.proof("GET", alias + USERINFO, token)}
    assert (await http.get(USERINFO, headers={**authorization, **by_alias, **proof})).status_code == 200
    # A proxy that reports no host passes the certificate on.
    proof = {"DPoP": key.proof("GET", alias + USERINFO, token)}
    assert (await http.get(USERINFO, headers={**authorization, **sent(certificate), **proof})).status_code == 200
    for url in (alias + USERINFO, "https://mtls.example.com.evil.example" + USERINFO):
        proof = {"DPoP": key.proof("GET", url, token)}
        refused(await http.get(USERINFO, headers={**authorization, **proof}), "invalid_dpop_proof", None)


@pytest.mark.requirement("oauth-12-38")
@pytest.mark.parametrize(("audience", "status"), [
    ("https://mtls.example.com/oauth2/token", 200),
    ("https://mtls.example.com.evil.example/oauth2/token", 401),
])  # fmt: skip
async def test_assertion_may_be_for_the_token_endpoint_at_the_alias(api, http, certificate, audience, status):
    key = client_signer.new_key()
    methods = {"clientAuthenticationMethods": ["private_key_jwt"], "jwks": client_signer.public(key)}
    client = await make(api, http, **methods, **BOUND)
    assertion = client_signer.signed(key, client_signer.claims(client.rp, aud=audience))
    answer = await client.ask(certificate, **client_signer.form(assertion))
    assert answer.status_code == status, answer.text


@pytest.mark.requirement("oauth-12-37")
async def test_header_of_a_stranger_is_ignored(api, http, stranger, certificate):
    client = await pki(api, http, **BOUND)
    token = (await client.tokens(certificate))["access_token"]
    client.http = stranger
    refused(await client.ask(certificate), "invalid_client", "client_authentication_missing")
    refused(await client.userinfo(certificate, token), "invalid_token", "access_token_invalid")


@pytest.mark.requirement("oauth-12-37")
async def test_both_formats_are_read_and_others_ignored(api, http, certificate):
    client = await pki(api, http)
    answer = await client.ask(None, headers={"Client-Cert": certificate.escaped_pem})
    assert answer.status_code == 200, answer.text
    for value in ("x", ":x:", "::", ":", "%2D", certificate.client_cert[:-1], certificate.pem.replace("\n", " ") * 2):
        answer = await client.ask(None, headers={"Client-Cert": value})
        refused(answer, "invalid_client", "client_authentication_missing")
    twice = [("Client-Cert", certificate.client_cert)] * 2
    form = {"grant_type": "password", "client_id": client.rp.client_id}
    answer = await http.post(TOKEN, data=form, headers=twice)
    refused(answer, "invalid_client", "client_authentication_missing")
    answer = await client.ask(None, headers={"Client-Cert": ":AAAA:"})
    refused(answer, "invalid_client", "invalid_client_authentication")


@pytest.mark.requirement("oauth-12-37")
@pytest.mark.parametrize(
    "value", ["", ":" + "A" * 20_000 + ":", "-----BEGIN CERTIFICATE----------END CERTIFICATE-----"]
)
def test_values_that_are_no_certificate(value):
    assert client_address.decode_certificate(value) is None


@pytest.mark.requirement("oauth-12-38")
async def test_metadata_announces_certificates(http):
    metadata = (await http.get("/.well-known/openid-configuration")).json()
    for name in ("token", "introspection", "revocation"):
        methods = metadata[f"{name}_endpoint_auth_methods_supported"]
        assert {"tls_client_auth", "self_signed_tls_client_auth"} <= set(methods)
    assert metadata["tls_client_certificate_bound_access_tokens"] is True
    assert metadata["mtls_endpoint_aliases"]["token_endpoint"] == "https://mtls.example.com/oauth2/token"
    assert metadata["token_endpoint"] != metadata["mtls_endpoint_aliases"]["token_endpoint"]
    assert list(metadata) == sorted(metadata)
