"""Every switch of `license.features` refuses exactly the calls of its feature."""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from identity.operations.configuration import reactor
from tests import internals, relying_party
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, ROOT, SUPER_KEY, UNKNOWN_ID, Build, checking_client
from tests.dpop import ClientKey
from tests.oauth2.devices import GRANTS, URL
from tests.relying_party import PASSWORD, RelyingParty

Request = tuple[str, str, dict[str, Any]]
"""Method, path, and the keyword arguments of httpx."""


@dataclasses.dataclass
class Instance:
    """A service with adjustable switches, and objects created while every feature was enabled."""

    switches: dict[str, bool]
    http: httpx.AsyncClient
    plain: RelyingParty
    third_party: RelyingParty
    universal: RelyingParty
    scoped: RelyingParty
    provider_id: str
    tenant_manager_id: str


@pytest.fixture(scope="module")
async def instance(build: Build) -> AsyncIterator[Instance]:
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with (
        build(license__features="{entityManagement: true}") as service,
        checking_client(service.base_url, headers=headers) as api,
        checking_client(service.base_url) as http,
    ):
        settings = {"deviceVerificationURL": URL, "enabledGrants": GRANTS}
        plain, third_party, universal, scoped = [
            await relying_party.make(api, **settings, **more) for more in ({}, {"relationship": "ThirdParty"}, {}, {})
        ]
        change = {"application": {"universalConfiguration": {"universal": True}}}
        await universal.patch(f"/api/application/{universal.client_id}", change)
        scope = {"scope": {"name": "orders", "defaultConsentMessage": "See your orders"}}
        await api.post(f"/api/application/{scoped.client_id}/scope", json=scope, headers=_inside(scoped))
        provider = {**EPIC_GAMES, "applicationConfiguration": {plain.client_id: {"enabled": True}}}
        made = await api.post("/api/identity-provider", json={"identityProvider": provider})
        assert made.status_code == 200, made.text
        switches = internals.config(service).license.features
        assert isinstance(switches, dict)
        manager = uuid.uuid5(uuid.UUID(internals.store(service, "instance_id")), "TENANT_MANAGER_ID")
        yield Instance(
            switches, http, plain, third_party, universal, scoped, made.json()["identityProvider"]["id"], str(manager)
        )


@dataclasses.dataclass(frozen=True)
class Row:
    """A call, and the features that it belongs to."""

    features: tuple[str, ...]
    name: str
    request: Callable[[Instance], Request]


EPIC_GAMES = {"type": "EpicGames", "client_id": "id", "client_secret": "secret", "enabled": True}


def _inside(rp: RelyingParty) -> dict[str, str]:
    return {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": rp.tenant["id"]}


def _api(method: str, path: str, body: Any = None, key: str = SUPER_KEY) -> Callable[[Instance], Request]:
    headers = {"Authorization": key, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    return lambda instance: (method, path.format(instance=instance), {"headers": headers, "json": body})


def _nested(path: str, value: Any) -> Any:
    name, _, rest = path.partition(".")
    return {name: _nested(rest, value) if rest else value}


def _setting(resource: str, path: str, value: Any, *features: str) -> Row:
    """The creation of an object with one setting."""
    paths = {"application": "/api/application", "tenant": "/api/tenant"}

    def request(instance: Instance) -> Request:
        # A tenant without a name is refused in any case: each new one would take the time of generating a signing key.
        name = {} if resource == "tenant" else {"name": new_id()}
        body = {resource: {**name, **_nested(path, value)}}
        return _api("POST", paths[resource], body)(instance)

    return Row(features, f"{resource}.{path}", request)


def _lambda(kind: str, *features: str) -> Row:
    body = {"lambda": {"name": "Lambda", "type": kind, "body": "function validate() {}"}}
    return Row(features, f"lambda of type {kind}", _api("POST", "/api/lambda", body))


def _authorize(name: str, rp_of: Callable[[Instance], RelyingParty], *features: str, **changes: str) -> list[Row]:
    """An authorization request, by GET and pushed."""

    def by_get(instance: Instance) -> Request:
        rp = rp_of(instance)
        return "GET", "/oauth2/authorize", {"params": rp.query(tenantId=rp.tenant["id"], **changes)}

    def pushed(instance: Instance) -> Request:
        rp = rp_of(instance)
        form = rp.query(tenantId=rp.tenant["id"], client_secret=rp.secret, **changes)
        return "POST", "/oauth2/par", {"data": form}

    return [Row(features, f"authorize: {name}", by_get), Row(features, f"pushed: {name}", pushed)]


def _token(instance: Instance, rp: RelyingParty, headers: dict[str, str] | None = None, **form: str) -> Request:
    data = {"client_id": rp.client_id, "client_secret": rp.secret, "tenantId": rp.tenant["id"], **form}
    return "POST", "/oauth2/token", {"data": data, "headers": headers or {}}


def _password(rp: RelyingParty, scope: str) -> dict[str, str]:
    return {"grant_type": "password", "username": rp.login_id, "password": PASSWORD, "scope": scope}


def _with_proof(instance: Instance) -> Request:
    proof = ClientKey().header(instance.http, "POST", "/oauth2/token")
    return _token(instance, instance.plain, proof, **_password(instance.plain, "openid"))


def _device(instance: Instance) -> Request:
    data = {"client_id": instance.scoped.client_id, "client_secret": instance.scoped.secret, "scope": "openid orders"}
    return "POST", "/oauth2/device_authorize", {"data": data}


def _client_credentials(instance: Instance) -> Request:
    data = {"client_id": UNKNOWN_ID, "client_secret": "secret", "grant_type": "client_credentials", "scope": "any"}
    return "POST", "/oauth2/token", {"data": data}


def _two_factor(path: str, **body: Any) -> Callable[[Instance], Request]:
    def request(instance: Instance) -> Request:
        user_id = instance.plain.user["id"]
        sent = {"method": "email", "email": "unknown@example.com", **body}
        sent |= {} if "{" in path else {"userId": user_id}
        return "POST", path.format(user_id=user_id), {"headers": _inside(instance.plain), "json": sent}

    return request


def _user(path: str, wrap: Callable[[dict[str, Any]], Any]) -> Callable[[Instance], Request]:
    def request(instance: Instance) -> Request:
        email = f"{new_id()}@example.com"
        two_factor = {"methods": [{"method": "email", "email": email}]}
        user = {"email": email, "password": PASSWORD, "twoFactor": two_factor}
        return _api("POST", path, wrap(user))(instance)

    return request


def _of_provider(path: str) -> Callable[[Instance], Request]:
    def request(instance: Instance) -> Request:
        body = {
            "identityProviderId": instance.provider_id,
            "applicationId": instance.plain.client_id,
            "data": {"token": "t"},
        }
        return "POST", path, {"headers": _inside(instance.plain), "json": body}

    return request


def _events(*features: str, event: str) -> list[Row]:
    webhook = {"url": "https://example.com/", "connectTimeout": 1, "readTimeout": 1, "eventsEnabled": {event: True}}
    return [
        Row(features, f"webhook with {event}", _api("POST", "/api/webhook", {"webhook": webhook})),
        _setting("tenant", "eventConfiguration", {"events": {event: {"enabled": True}}}, *features),
    ]


MFA, ACL, SCIM = "advancedMultiFactorAuthentication", "threatDetection", "scimServer"
SCOPES, CUSTOM = "advancedOAuthScopes", "advancedOAuthScopesCustomScopes"
THIRD, PROVIDERS = "advancedOAuthScopesThirdPartyApplications", "advancedIdentityProviders"
REGISTRATION, APPLICATION_MFA = "advancedRegistration", "applicationMultiFactorAuthentication"
WEB_AUTHN = {"enabled": True, "bootstrapWorkflow": {"enabled": True, "authenticatorAttachmentPreference": "any"}}
PLATFORM = {"enabled": False, "bootstrapWorkflow": {"enabled": True, "authenticatorAttachmentPreference": "platform"}}
ROAMING = {
    "enabled": False,
    "reauthenticationWorkflow": {"enabled": True, "authenticatorAttachmentPreference": "crossPlatform"},
}
CONVERTERS = [
    f"lambdaConfiguration.scim{kind}{way}ConverterId"
    for kind in ("EnterpriseUser", "Group", "User")
    for way in ("Request", "Response")
]
LIMITS = (
    *("failedLogin", "forgotPassword", "sendEmailVerification", "sendPasswordless", "sendPasswordlessPhone"),
    *("sendPhoneVerification", "sendRegistrationVerification", "sendTwoFactor"),
)

TABLE = [
    # Settings that use a feature.
    _setting("application", "formConfiguration.adminRegistrationFormId", UNKNOWN_ID, REGISTRATION),
    _setting("application", "formConfiguration.selfServiceFormId", UNKNOWN_ID, REGISTRATION),
    _setting("application", "registrationConfiguration.formId", UNKNOWN_ID, REGISTRATION),
    _setting("application", "registrationConfiguration.type", "advanced", REGISTRATION),
    _setting("tenant", "formConfiguration.adminUserFormId", UNKNOWN_ID, REGISTRATION),
    Row((REGISTRATION,), "form", _api("POST", "/api/form", {"form": {}})),
    Row((REGISTRATION,), "form field", _api("POST", "/api/form/field", {"field": {}})),
    _setting("application", "multiFactorConfiguration.loginPolicy", "Required", APPLICATION_MFA),
    _setting("application", "multiFactorConfiguration.trustPolicy", "This", APPLICATION_MFA),
    *[
        _setting("application", f"multiFactorConfiguration.{way}.templateId", UNKNOWN_ID, APPLICATION_MFA)
        for way in ("email", "sms", "voice")
    ],
    *[_setting("tenant", f"multiFactorConfiguration.{way}.enabled", True, MFA) for way in ("email", "sms", "voice")],
    _setting("application", "themeId", "75a068fd-e94b-451a-9aeb-3ddb9a3b5987", "applicationThemes"),
    _setting("application", "oauthConfiguration.dpopBoundAccessTokens", True, "dPoP"),
    _setting("application", "oauthConfiguration.dpopNonceRequired", True, "dPoP"),
    _setting("application", "oauthConfiguration.consentMode", "RememberDecision", SCOPES),
    _setting("application", "oauthConfiguration.consentMode", "NeverPrompt", SCOPES),
    _setting("application", "oauthConfiguration.relationship", "ThirdParty", THIRD, SCOPES),
    _setting("application", "scopes", [{"name": "orders"}], CUSTOM, SCOPES),
    _setting("application", "universalConfiguration.universal", True, "universalApplication"),
    _setting("tenant", "passwordValidationRules.breachDetection.enabled", True, "breachedPasswordDetection"),
    _setting("tenant", "connectorPolicies", [{"connectorId": UNKNOWN_ID}], "connectors"),
    _setting("tenant", "scimServerConfiguration.enabled", True, SCIM),
    *[_setting("tenant", path, UNKNOWN_ID, SCIM) for path in CONVERTERS],
    _setting("tenant", "captchaConfiguration.enabled", True, ACL),
    _setting("tenant", "registrationConfiguration.blockedDomains", ["example.com"], ACL),
    *[_setting("tenant", f"rateLimitConfiguration.{name}.enabled", True, ACL) for name in LIMITS],
    _setting("application", "lambdaConfiguration.selfServiceRegistrationValidationId", UNKNOWN_ID, "advancedLambdas"),
    _setting("tenant", "lambdaConfiguration.loginValidationId", UNKNOWN_ID, "advancedLambdas"),
    *[
        row
        for resource in ("application", "tenant")
        for row in (
            _setting(resource, "accessControlConfiguration.uiIPAccessControlListId", UNKNOWN_ID, ACL),
            _setting(
                resource,
                "lambdaConfiguration.multiFactorRequirementId",
                UNKNOWN_ID,
                "intelligentMFA",
                "multiFactorLambdas",
            ),
            _setting(resource, "webAuthnConfiguration", WEB_AUTHN, "webAuthn"),
            _setting(resource, "webAuthnConfiguration", PLATFORM, "webAuthnPlatformAuthenticators", "webAuthn"),
            _setting(resource, "webAuthnConfiguration", ROAMING, "webAuthnRoamingAuthenticators", "webAuthn"),
        )
    ],
    # Calls that use a feature.
    _lambda("LoginValidation", "advancedLambdas"),
    _lambda("SelfServiceRegistrationValidation", "advancedLambdas"),
    _lambda("MFARequirement", "multiFactorLambdas"),
    _lambda("SCIMServerUserRequestConverter", SCIM),
    Row((PROVIDERS,), "provider", _api("POST", "/api/identity-provider", {"identityProvider": EPIC_GAMES})),
    Row((PROVIDERS,), "login", _of_provider("/api/identity-provider/login")),
    Row((PROVIDERS,), "start", _of_provider("/api/identity-provider/start")),
    *[
        Row((ACL,), f"{method} {path}", _api(method, path, body))
        for method, path, body in (
            ("GET", "/api/ip-acl/search", None),
            ("POST", "/api/ip-acl", {"ipAccessControlList": {"name": "A list"}}),
            ("DELETE", f"/api/ip-acl/{UNKNOWN_ID}", None),
        )
    ],
    Row((ACL,), "key", _api("POST", "/api/api-key", {"apiKey": {"ipAccessControlListId": UNKNOWN_ID}}, MANAGER_KEY)),
    *_events(ACL, event="user.login.suspicious"),
    *_events(ACL, event="user.login.new-device"),
    *_events("breachedPasswordDetection", event="user.password.breach"),
    *_events("entityManagement", event="entity.create"),
    Row((MFA,), "add a method", _two_factor("/api/user/two-factor/{user_id}", code="123456")),
    Row((MFA,), "send a code", _two_factor("/api/two-factor/send")),
    Row((MFA,), "user", _user("/api/user", lambda user: {"user": user})),
    Row((MFA,), "registration", _user("/api/user/registration", lambda user: {"user": user, "registration": {}})),
    Row((MFA,), "import", _user("/api/user/import", lambda user: {"users": [user]})),
    Row(("entityManagement",), "entity", _api("POST", "/api/entity", {"entity": {}})),
    Row(("entityManagement",), "entity type", _api("POST", "/api/entity/type", {"entityType": {}})),
    Row(("entityManagement",), "client credentials", _client_credentials),
    Row(
        ("tenantManagerApplication",),
        "tenant manager",
        _api("POST", "/api/application/{instance.tenant_manager_id}", {"application": {}}),
    ),
    Row((CUSTOM, SCOPES), "scope", _api("POST", "/api/application/{instance.plain.client_id}/scope", {"scope": {}})),
    *_authorize("third party", lambda instance: instance.third_party, THIRD, SCOPES),
    *_authorize("custom scope", lambda instance: instance.scoped, CUSTOM, SCOPES, scope="openid orders"),
    *_authorize("universal application", lambda instance: instance.universal, "universalApplication"),
    *_authorize("bound code", lambda instance: instance.plain, "dPoP", dpop_jkt="x" * 43),
    Row((CUSTOM, SCOPES), "device", _device),
    Row(
        (CUSTOM, SCOPES),
        "password grant",
        lambda instance: _token(instance, instance.scoped, **_password(instance.scoped, "openid orders")),
    ),
    Row(("dPoP",), "proof", _with_proof),
    # Calls that use none.
    _setting("application", "name", "Plain"),
    _setting("tenant", "name", "Plain"),
    _lambda("JWTPopulate"),
    Row((), "scope-less", lambda instance: _token(instance, instance.plain, **_password(instance.plain, "openid"))),
    *_authorize("plain", lambda instance: instance.plain),
    *_events(event="user.create"),
]


async def _is_refused(instance: Instance, row: Row) -> bool:
    """Whether a call is refused because its feature is disabled."""
    method, path, arguments = row.request(instance)
    answer = await instance.http.request(method, path, **arguments)
    location = httpx.URL(answer.headers.get("Location", ""))
    if location.params.get("error") == "not_licensed":
        return location.params["error_reason"] == "not_licensed"
    if path.startswith("/oauth2/"):
        body = answer.json() if answer.headers.get("Content-Type") == "application/json" else {}
        refused = body.get("error") == "not_licensed"
        assert not refused or (answer.status_code, body["error_reason"]) == (400, "not_licensed")
        return refused
    codes = [error["code"] for error in answer.json().get("generalErrors", [])] if answer.status_code == 400 else []
    return "[NotLicensed]" in codes


@pytest.mark.requirement("audit-d4")
def test_every_feature_is_documented() -> None:
    text = (ROOT / "docs" / "features.md").read_text()
    assert re.findall(r"^\| `(\w+)`", text, re.MULTILINE) == list(reactor.FEATURES)


@pytest.mark.requirement("audit-d4")
def test_test_table_covers_every_feature() -> None:
    assert {feature for row in TABLE for feature in row.features} == set(reactor.FEATURES)


@pytest.mark.requirement("audit-d4")
@pytest.mark.parametrize("feature", reactor.FEATURES)
async def test_disabled_feature_refuses_its_calls(instance: Instance, feature: str) -> None:
    instance.switches.clear()
    instance.switches[feature] = False
    accepted = [row.name for row in TABLE if feature in row.features and not await _is_refused(instance, row)]
    assert accepted == []


@pytest.mark.requirement("audit-d4")
async def test_disabled_features_accept_calls_of_others(instance: Instance) -> None:
    """Each call is sent once, with all features disabled but its own: no other feature can refuse it."""
    refused: list[str] = []
    for row in TABLE:
        instance.switches.clear()
        instance.switches |= {feature: feature in row.features for feature in reactor.FEATURES}
        if await _is_refused(instance, row):
            refused.append(row.name)
    assert refused == []


@pytest.mark.requirement("audit-d4")
async def test_all_features_are_enabled_by_default(instance: Instance) -> None:
    instance.switches.clear()
    assert [row.name for row in TABLE if await _is_refused(instance, row)] == []


@pytest.mark.requirement("audit-d4")
async def test_existing_settings_are_kept_and_do_not_block_changes(instance: Instance) -> None:
    path = f"/api/application/{instance.third_party.client_id}"
    instance.switches.clear()
    instance.switches["advancedOAuthScopes"] = False
    renamed = await instance.http.patch(
        path, headers=_inside(instance.third_party), json={"application": {"name": new_id()}}
    )
    assert renamed.status_code == 200, renamed.text
    assert renamed.json()["application"]["oauthConfiguration"]["relationship"] == "ThirdParty"


@pytest.mark.requirement("audit-d4")
async def test_error_names_feature_and_settings_among_other_errors(instance: Instance) -> None:
    instance.switches.clear()
    instance.switches |= {"applicationThemes": False, "dPoP": False}
    body = {"application": {"themeId": UNKNOWN_ID, "oauthConfiguration": {"dpopBoundAccessTokens": True}}}
    refused = await instance.http.post("/api/application", headers=_inside(instance.plain), json=body)
    assert refused.status_code == 400
    assert refused.json()["generalErrors"] == [
        {
            "code": "[NotLicensed]",
            "message": "The feature applicationThemes is switched off: [application.themeId].",
        },
        {
            "code": "[NotLicensed]",
            "message": "The feature dPoP is switched off: [application.oauthConfiguration.dpopBoundAccessTokens].",
        },
    ]
    assert "application.name" in refused.json()["fieldErrors"]


@pytest.mark.requirement("audit-d4")
async def test_metadata_omits_disabled_dpop(instance: Instance) -> None:
    instance.switches.clear()
    member = "dpop_signing_alg_values_supported"
    assert member in (await instance.http.get("/.well-known/openid-configuration")).json()
    instance.switches["dPoP"] = False
    assert member not in (await instance.http.get("/.well-known/openid-configuration")).json()
