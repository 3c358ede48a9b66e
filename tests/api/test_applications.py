"""Applications: every default and constraint, roles and scopes, OAuth configuration, copies, states, search."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id, unbase64url
from tests import internals
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, checking_client
from tests.members import NOTHING, at, codes, contains, with_member

Document = dict[str, Any]

"""Stands for a member that is not shown."""

UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SCOPE_POLICY = {"enabled": True, "required": False}
FIELD = {"enabled": False, "required": False}

DEFAULTS: Document = {
    "active": True,
    "state": "Active",
    "roles": [],
    "scopes": [],
    "data": {},
    "themeId": NOTHING,
    "baseURL": NOTHING,
    "accessControlConfiguration.uiIPAccessControlListId": NOTHING,
    "authenticationTokenConfiguration.enabled": False,
    "emailConfiguration": {},
    "externalIdentifierConfiguration": {},
    "jwtConfiguration": {
        "enabled": False,
        "refreshTokenExpirationPolicy": "Fixed",
        "refreshTokenOneTimeUseConfiguration": {"gracePeriodInSeconds": 0},
        "refreshTokenSlidingWindowConfiguration": {"maximumTimeToLiveInMinutes": 43200},
        "refreshTokenTimeToLiveInMinutes": 43200,
        "refreshTokenUsagePolicy": "Reusable",
        "timeToLiveInSeconds": 3600,
    },
    "lambdaConfiguration": {},
    "loginConfiguration": {"allowTokenRefresh": False, "generateRefreshTokens": False, "requireAuthentication": True},
    "multiFactorConfiguration.loginPolicy": NOTHING,
    "multiFactorConfiguration.trustPolicy": NOTHING,
    "oauthConfiguration.authorizedRedirectURLs": [],
    "oauthConfiguration.authorizedOriginURLs": [],
    "oauthConfiguration.authorizedURLValidationPolicy": "ExactMatch",
    "oauthConfiguration.clientAuthenticationPolicy": "Required",
    "oauthConfiguration.requireClientAuthentication": True,
    "oauthConfiguration.proofKeyForCodeExchangePolicy": "NotRequired",
    "oauthConfiguration.enabledGrants": ["authorization_code", "refresh_token"],
    "oauthConfiguration.generateRefreshTokens": True,
    "oauthConfiguration.deviceVerificationURL": NOTHING,
    "oauthConfiguration.backChannelLogoutURL": NOTHING,
    "oauthConfiguration.backChannelLogoutSessionRequired": True,
    "oauthConfiguration.logoutBehavior": "AllApplications",
    "oauthConfiguration.logoutURL": NOTHING,
    "oauthConfiguration.requireRegistration": False,
    "oauthConfiguration.debug": False,
    "oauthConfiguration.relationship": "FirstParty",
    "oauthConfiguration.consentMode": "AlwaysPrompt",
    "oauthConfiguration.scopeHandlingPolicy": "Strict",
    "oauthConfiguration.unknownScopePolicy": "Reject",
    "oauthConfiguration.providedScopePolicy": dict.fromkeys(("address", "email", "phone", "profile"), SCOPE_POLICY),
    "oauthConfiguration.authorizedResourceUris": [],
    "passwordlessConfiguration": {"enabled": False},
    "registrationConfiguration": {
        "birthDate": FIELD,
        "completeRegistration": False,
        "confirmPassword": False,
        "enabled": False,
        "firstName": FIELD,
        "fullName": FIELD,
        "lastName": FIELD,
        "loginIdType": "email",
        "middleName": FIELD,
        "mobilePhone": FIELD,
        "preferredLanguages": FIELD,
        "type": "basic",
    },
    "registrationDeletePolicy.unverified": {"enabled": False, "numberOfDaysToRetain": 120},
    "unverified.behavior": "Allow",
    "verifyRegistration": False,
    "verificationEmailTemplateId": NOTHING,
    "verificationStrategy": "ClickableLink",
    "samlv2Configuration": {
        "assertionEncryptionConfiguration": {
            "digestAlgorithm": "SHA256",
            "enabled": False,
            "encryptionAlgorithm": "AES256GCM",
            "keyLocation": "Child",
            "keyTransportAlgorithm": "RSA_OAEP",
            "maskGenerationFunction": "MGF1_SHA1",
        },
        "debug": False,
        "enabled": False,
        "initiatedLogin": {
            "enabled": False,
            "nameIdFormat": "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
        },
        "loginHintConfiguration": {"enabled": True, "parameterName": "login_hint"},
        "logout": {
            "behavior": "AllParticipants",
            "requireSignedRequests": False,
            "singleLogout": {"enabled": False, "xmlSignatureC14nMethod": "exclusive_with_comments"},
            "xmlSignatureC14nMethod": "exclusive_with_comments",
        },
        "requireSignedRequests": False,
        "xmlSignatureC14nMethod": "exclusive_with_comments",
        "xmlSignatureLocation": "Assertion",
    },
    "webAuthnConfiguration": {
        "bootstrapWorkflow": {"enabled": False},
        "enabled": False,
        "reauthenticationWorkflow": {"enabled": False},
    },
    "cleanSpeakConfiguration": {"enabled": False, "usernameModeration": {"enabled": False}},
    "universalConfiguration": {"universal": False},
}


async def make(api: httpx.AsyncClient, body: Document | None = None, **members: Any) -> Document:
    document = {"application": {"name": f"Application {new_id()}", **members}, **(body or {})}
    answer = await api.post("/api/application", json=document)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["application"])


async def shown(api: httpx.AsyncClient, made: Document) -> Document:
    return dict((await api.get(f"/api/application/{made['id']}")).json()["application"])


@pytest.fixture(scope="module")
async def plain(service: app.Service) -> Document:
    """An application created with only a name."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with checking_client(service.base_url, headers=headers) as api:
        return await make(api)


@pytest.mark.requirement(
    "core-9-accessControlConfiguration",
    "core-9-authenticationTokenConfiguration",
    "core-9-cleanSpeakConfiguration",
    "core-9-emailConfiguration",
    "core-9-externalIdentifierConfiguration",
    "core-9-formConfiguration",
    "core-9-jwtConfiguration",
    "core-9-lambdaConfiguration",
    "core-9-loginConfiguration",
    "core-9-members",
    "core-9-multiFactorConfiguration",
    "core-9-oauthConfiguration",
    "core-9-passwordlessConfiguration",
    "core-9-phoneConfiguration",
    "core-9-registrationConfiguration",
    "core-9-registrationDeletePolicy",
    "core-9-samlv2Configuration",
    "core-9-unverified",
    "core-9-webAuthnConfiguration",
    "service-8",
)
@pytest.mark.parametrize("path", DEFAULTS)
async def test_default(plain, path) -> None:
    assert at(plain, path) == DEFAULTS[path]


@pytest.mark.requirement("core-9-members", "core-9-oauthConfiguration")
async def test_client_id_and_secret_are_generated(plain) -> None:
    oauth = plain["oauthConfiguration"]
    assert oauth["clientId"] == plain["id"]
    assert len(unbase64url(oauth["clientSecret"])) == 32
    assert plain["tenantId"] == DEFAULT_TENANT


@pytest.mark.requirement("core-9-crud")
async def test_put_of_returned_object_changes_nothing(api) -> None:
    made = await make(api, data={"a": 1}, roles=[{"name": "r"}], scopes=[{"name": "s"}])
    answer = await api.put(f"/api/application/{made['id']}", json={"application": made})
    assert {**answer.json()["application"], "lastUpdateInstant": 0} == {**made, "lastUpdateInstant": 0}


@pytest.mark.requirement("core-1-10", "core-9-members", "core-9-oauthConfiguration")
async def test_put_resets_to_defaults_but_keeps_secret_roles_scopes_and_state(api) -> None:
    made = await make(
        api,
        data={"a": 1},
        roles=[{"name": "r", "isDefault": True}],
        scopes=[{"name": "s", "required": True}],
        oauthConfiguration={
            "clientSecret": "chosen by the caller",
            "debug": True,
            "logoutURL": "https://a.example.com",
        },
    )
    path = f"/api/application/{made['id']}"
    await api.delete(path)
    body = {"application": {"name": made["name"], "roles": [{"name": "other"}], "scopes": [], "active": True}}
    changed = (await api.put(path, json=body)).json()["application"]
    assert changed["oauthConfiguration"]["clientSecret"] == "chosen by the caller"
    assert changed["oauthConfiguration"]["debug"] is False
    assert "logoutURL" not in changed["oauthConfiguration"]
    assert changed["data"] == {}
    assert (changed["roles"], changed["scopes"]) == (made["roles"], made["scopes"])
    assert (changed["active"], changed["state"]) == (False, "Inactive")
    body = {"application": {"name": made["name"], "oauthConfiguration": {"clientSecret": "another"}}}
    assert (await api.put(path, json=body)).json()["application"]["oauthConfiguration"]["clientSecret"] == "another"


@pytest.mark.requirement("core-9-oauthConfiguration", "service-8")
async def test_client_secret_is_sealed_at_rest(service, api) -> None:
    made = await make(api)
    stored = await internals.database(service).collection("applications").find_one({"_id": made["id"]})
    assert made["oauthConfiguration"]["clientSecret"] not in str(stored)


@pytest.mark.requirement("core-9-oauthConfiguration", "oauth-2.1-3")
@pytest.mark.parametrize(
    ("sent", "policy", "required"),
    [
        ({}, "Required", True),
        ({"requireClientAuthentication": True}, "Required", True),
        ({"requireClientAuthentication": False}, "NotRequired", False),
        ({"clientAuthenticationPolicy": "NotRequired"}, "NotRequired", False),
        ({"clientAuthenticationPolicy": "NotRequiredWhenUsingPKCE"}, "NotRequiredWhenUsingPKCE", False),
        (
            {"clientAuthenticationPolicy": "NotRequired", "requireClientAuthentication": True},
            "NotRequired",
            False,
        ),
    ],
)
async def test_deprecated_client_authentication_flag_follows_policy(api, sent, policy, required) -> None:
    oauth = (await make(api, oauthConfiguration=sent))["oauthConfiguration"]
    assert (oauth["clientAuthenticationPolicy"], oauth["requireClientAuthentication"]) == (policy, required)


@pytest.mark.requirement("core-9-oauthConfiguration", "oauth-2.1-3")
async def test_deprecated_client_authentication_flag_in_patch_changes_policy(api, plain) -> None:
    """A client of before 1.28 knows no other way to say it."""
    made = await make(api)
    change = {"application": {"oauthConfiguration": {"requireClientAuthentication": False}}}
    patched = (await api.patch(f"/api/application/{made['id']}", json=change)).json()["application"]
    assert patched["oauthConfiguration"]["clientAuthenticationPolicy"] == "NotRequired"
    assert patched["oauthConfiguration"]["requireClientAuthentication"] is False


REFUSED: list[tuple[str, Any, str]] = [
    ("name", "", "blank"),
    ("name", "x" * 192, "tooLong"),
    ("themeId", "nonsense", "couldNotConvert"),
    ("jwtConfiguration.accessTokenKeyId", UNKNOWN_ID, "invalid"),
    ("jwtConfiguration.idTokenKeyId", UNKNOWN_ID, "invalid"),
    ("baseURL", "/relative", "invalid"),
    ("baseURL", "myapp://links", "invalid"),
    ("externalIdentifierConfiguration.twoFactorTrustIdTimeToLiveInSeconds", 0, "invalid"),
    ("jwtConfiguration.timeToLiveInSeconds", -1, "invalid"),
    ("jwtConfiguration.refreshTokenTimeToLiveInMinutes", -1, "invalid"),
    ("jwtConfiguration.refreshTokenExpirationPolicy", "Never", "invalid"),
    ("jwtConfiguration.refreshTokenOneTimeUseConfiguration.gracePeriodInSeconds", 86401, "invalid"),
    ("multiFactorConfiguration.loginPolicy", "Sometimes", "invalid"),
    ("jwtConfiguration.refreshTokenUsagePolicy", "Twice", "invalid"),
    ("multiFactorConfiguration.trustPolicy", "All", "invalid"),
    ("oauthConfiguration.authorizedURLValidationPolicy", "Regex", "invalid"),
    ("oauthConfiguration.clientAuthenticationPolicy", "Sometimes", "invalid"),
    ("oauthConfiguration.proofKeyForCodeExchangePolicy", "Sometimes", "invalid"),
    ("oauthConfiguration.logoutBehavior", "None", "invalid"),
    ("oauthConfiguration.logoutURL", "/relative", "invalid"),
    ("oauthConfiguration.backChannelLogoutURL", "/relative", "invalid"),
    ("oauthConfiguration.logoutURL", "javascript:alert(1)", "invalid"),
    ("oauthConfiguration.deviceVerificationURL", "data:text/html,x", "invalid"),
    ("oauthConfiguration.relationship", "FourthParty", "invalid"),
    ("oauthConfiguration.consentMode", "Never", "invalid"),
    ("oauthConfiguration.scopeHandlingPolicy", "Loose", "invalid"),
    ("oauthConfiguration.unknownScopePolicy", "Ask", "invalid"),
    ("registrationConfiguration.type", "simple", "invalid"),
    ("registrationConfiguration.loginIdType", "phone", "invalid"),
    ("registrationDeletePolicy.unverified.numberOfDaysToRetain", 0, "invalid"),
    ("unverified.behavior", "Forbid", "invalid"),
    ("verificationStrategy", "Pigeon", "invalid"),
    ("accessControlConfiguration.uiIPAccessControlListId", UNKNOWN_ID, "invalid"),
]


@pytest.mark.requirement(
    "core-9-accessControlConfiguration",
    "core-9-errors",
    "core-9-externalIdentifierConfiguration",
    "core-9-jwtConfiguration",
    "core-9-members",
    "core-9-multiFactorConfiguration",
    "core-9-oauthConfiguration",
    "core-9-registrationConfiguration",
    "core-9-unverified",
    "service-8",
)
@pytest.mark.parametrize(("path", "value", "kind"), REFUSED, ids=lambda part: str(part)[:60])
async def test_constraint(api, path, value, kind) -> None:
    body = with_member(f"application.{path}", value)
    body["application"].setdefault("name", f"Application {new_id()}")
    answer = await api.post("/api/application", json=body)
    assert codes(answer) == {f"[{kind}]application.{path}"}


@pytest.mark.requirement(
    "core-9-errors",
    "core-9-jwtConfiguration",
    "core-9-members",
    "core-9-oauthConfiguration",
    "core-9-scope-names",
    "service-8",
)
@pytest.mark.parametrize(
    ("members", "code"),
    [
        (
            {"oauthConfiguration": {"enabledGrants": [DEVICE_GRANT]}},
            "[missing]application.oauthConfiguration.deviceVerificationURL",
        ),
        ({"oauthConfiguration": {"enabledGrants": ["x"]}}, "[invalid]application.oauthConfiguration.enabledGrants[0]"),
        ({"verifyRegistration": True}, "[missing]application.verificationEmailTemplateId"),
        (
            {
                "jwtConfiguration": {
                    "enabled": True,
                    "refreshTokenExpirationPolicy": "SlidingWindowWithMaximumLifetime",
                    "refreshTokenSlidingWindowConfiguration": {"maximumTimeToLiveInMinutes": 1},
                }
            },
            "[invalid]application.jwtConfiguration.refreshTokenSlidingWindowConfiguration.maximumTimeToLiveInMinutes",
        ),
        ({"roles": [{"name": "a"}, {"name": "a"}]}, "[duplicate]application.roles[1].name"),
        (
            {"roles": [{"name": "a", "id": UNKNOWN_ID}, {"name": "b", "id": UNKNOWN_ID}]},
            "[duplicate]application.roles[1].id",
        ),
        ({"roles": [{"name": " "}]}, "[blank]application.roles[0].name"),
        ({"scopes": [{"name": "a"}, {"name": "a"}]}, "[duplicate]application.scopes[1].name"),
        ({"scopes": [{"name": "openid"}]}, "[invalid]application.scopes"),
        ({"scopes": [{"name": "a b"}]}, "[invalid]application.scopes[0].name"),
    ],
)
async def test_conflicting_members(api, members, code) -> None:
    body = {"application": {"name": f"Application {new_id()}", **members}}
    assert codes(await api.post("/api/application", json=body)) == {code}


SWITCHES = [
    "authenticationTokenConfiguration.enabled", "jwtConfiguration.enabled", "loginConfiguration.allowTokenRefresh",
    "loginConfiguration.generateRefreshTokens", "loginConfiguration.requireAuthentication", "oauthConfiguration.debug",
    "oauthConfiguration.generateRefreshTokens", "oauthConfiguration.requireRegistration",
    "passwordlessConfiguration.enabled", "registrationConfiguration.enabled",
    "registrationConfiguration.confirmPassword",
    "registrationConfiguration.completeRegistration", "registrationDeletePolicy.unverified.enabled",
    *(f"oauthConfiguration.providedScopePolicy.{scope}.{member}"
      for scope in ("address", "email", "phone", "profile") for member in ("enabled", "required")),
    *(f"registrationConfiguration.{field}.{member}" for member in ("enabled", "required") for field in (
        "birthDate", "firstName", "fullName", "lastName", "middleName", "mobilePhone", "preferredLanguages")),
]  # fmt: skip


@pytest.mark.requirement(
    "core-9-authenticationTokenConfiguration",
    "core-9-loginConfiguration",
    "core-9-oauthConfiguration",
    "core-9-passwordlessConfiguration",
    "core-9-registrationConfiguration",
    "core-9-registrationDeletePolicy",
)
@pytest.mark.parametrize("value", [True, False])
async def test_every_boolean_is_stored(api, value) -> None:
    wanted: Document = {}
    for path in SWITCHES:
        holder, (*steps, last) = wanted, path.split(".")
        for step in steps:
            holder = holder.setdefault(step, {})
        holder[last] = value
    made = await make(api, **wanted)
    assert {path: at(made, path) for path in SWITCHES} == dict.fromkeys(SWITCHES, value)
    assert await shown(api, made) == made


@pytest.mark.requirement(
    "core-9-cleanSpeakConfiguration",
    "core-9-formConfiguration",
    "core-9-lambdaConfiguration",
    "core-9-members",
    "core-9-phoneConfiguration",
    "core-9-samlv2Configuration",
    "core-9-webAuthnConfiguration",
)
async def test_stored_members_are_returned_and_unknown_ones_dropped(api) -> None:
    forms = {form["type"]: form["id"] for form in (await api.get("/api/form")).json()["forms"]}
    echoed = {
        "baseURL": "https://links.example.com/base",
        "cleanSpeakConfiguration": {
            "enabled": True,
            "url": "https://filter.example.com",
            "applicationIds": [UNKNOWN_ID],
        },
        "formConfiguration": {
            "adminRegistrationFormId": forms["adminRegistration"],
            "selfServiceFormConfiguration": {"requireCurrentPasswordOnPasswordChange": True},
            "selfServiceFormId": forms["selfServiceUser"],
        },
        "phoneConfiguration": {"passwordlessTemplateId": UNKNOWN_ID},
        "samlv2Configuration": {"enabled": True, "issuer": "x", "authorizedRedirectURLs": ["https://a.example.com"]},
        "webAuthnConfiguration": {"enabled": True, "reauthenticationWorkflow": {"enabled": True}},
    }
    made = await make(api, **echoed, unknownMember=1, state="Inactive", active=False)
    assert contains(made, echoed)
    assert "unknownMember" not in made
    assert (made["active"], made["state"]) == (True, "Active")
    assert "baseURL" not in await make(api, baseURL=" ")


@pytest.mark.requirement("core-9-oauthConfiguration")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "/relative",
        "//host.example.com/x",
        "https://user@evil.example.com/",
        "http://localhost:80@evil.example.com/",
        "https://example.com/#fragment",
        "https://example.com/a b",
        "https://example.com\\@evil.example.com",
        "https://example.com/\r\nSet-Cookie: a=b",
        "https://exämple.com/",
        "https://",
        "",
        "not a url",
    ],
)
async def test_unsafe_redirect_url_is_refused(api, url) -> None:
    for name in ("authorizedRedirectURLs", "authorizedOriginURLs"):
        body = {"application": {"name": f"A {new_id()}", "oauthConfiguration": {name: ["https://ok.example.com", url]}}}
        assert codes(await api.post("/api/application", json=body)) == {
            f"[invalid]application.oauthConfiguration.{name}[1]"
        }


@pytest.mark.requirement("core-9-oauthConfiguration")
@pytest.mark.parametrize(
    "url",
    ["https://example.com/cb", "http://localhost:3000/cb", "http://127.0.0.1/cb", "com.example.app:/cb", "myapp://cb"],
)
async def test_valid_redirect_url_is_accepted(api, url) -> None:
    made = await make(api, oauthConfiguration={"authorizedRedirectURLs": [url, url]})
    assert made["oauthConfiguration"]["authorizedRedirectURLs"] == [url]


@pytest.mark.requirement("core-9-oauthConfiguration")
async def test_wildcards_require_wildcard_policy(api) -> None:
    url = "https://*.example.com/cb"
    oauth = {"authorizedRedirectURLs": [url], "authorizedURLValidationPolicy": "AllowWildcards"}
    assert (await make(api, oauthConfiguration=oauth))["oauthConfiguration"]["authorizedRedirectURLs"] == [url]
    for bad in ("*://example.com/", "https://*/", "https://a.*.com/", "https://user:*@example.com/"):
        body = {"application": {"name": "x", "oauthConfiguration": {**oauth, "authorizedRedirectURLs": [bad]}}}
        assert codes(await api.post("/api/application", json=body)) == {
            "[invalid]application.oauthConfiguration.authorizedRedirectURLs[0]"
        }


@pytest.mark.requirement("core-9-multiFactorConfiguration")
async def test_trust_policy_requires_login_policy(api) -> None:
    made = await make(api, multiFactorConfiguration={"trustPolicy": "This"})
    assert "trustPolicy" not in made["multiFactorConfiguration"]
    made = await make(api, multiFactorConfiguration={"loginPolicy": "Required", "trustPolicy": "This"})
    assert made["multiFactorConfiguration"]["trustPolicy"] == "This"


@pytest.mark.requirement("core-9-errors", "core-9-members")
async def test_names_are_unique_per_tenant(api, tenant_api, plain) -> None:
    body = {"application": {"name": plain["name"]}}
    assert codes(await api.post("/api/application", json=body)) == {"[duplicate]application.name"}
    assert (await tenant_api.post("/api/application", json=body)).status_code == 200
    answers = await asyncio.gather(
        *(api.post("/api/application", json={"application": {"name": "At once"}}) for _ in range(6))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 5


@pytest.mark.requirement("core-9-members")
async def test_tenant_cannot_be_changed(api, tenant) -> None:
    made = await make(api)
    for change in ({"name": made["name"], "tenantId": tenant["id"]}, {"tenantId": tenant["id"]}):
        method = "PUT" if "name" in change else "PATCH"
        answer = await api.request(method, f"/api/application/{made['id']}", json={"application": change})
        assert answer.json()["application"]["tenantId"] == DEFAULT_TENANT


# States


@pytest.mark.requirement("core-9-crud", "core-9-members", "core-9-reactivate")
async def test_application_is_deactivated_reactivated_and_deleted(tenant_api) -> None:
    made, other = await make(tenant_api), await make(tenant_api)
    path = f"/api/application/{made['id']}"
    assert (await tenant_api.delete(path)).status_code == 200

    async def listed(**query: Any) -> list[str]:
        found = (await tenant_api.get("/api/application", params=query)).json()["applications"]
        return [one["id"] for one in found]

    assert await listed() == [other["id"]]
    assert await listed(inactive="true") == await listed(inactive="TRUE") == [made["id"]]
    assert (await shown(tenant_api, made))["state"] == "Inactive"
    again = (await tenant_api.put(path, params={"reactivate": "true"})).json()["application"]
    assert (again["active"], again["state"]) == (True, "Active")
    assert again["lastUpdateInstant"] > made["lastUpdateInstant"]
    assert sorted(await listed()) == sorted([made["id"], other["id"]])
    assert (await tenant_api.delete(path, params={"hardDelete": "true"})).status_code == 200
    assert (await tenant_api.get(path)).status_code == 404
    assert (await tenant_api.put(path, params={"reactivate": "true"})).status_code == 404
    assert (await tenant_api.delete(path)).status_code == 404


@pytest.mark.requirement("core-9-hard-delete")
async def test_deleted_application_leaves_no_registration(tenant_api) -> None:
    made = await make(tenant_api)
    body = {"user": {"username": "u", "password": "password"}, "registration": {"applicationId": made["id"]}}
    user = (await tenant_api.post("/api/user/registration", json=body)).json()["user"]
    await tenant_api.delete(f"/api/application/{made['id']}", params={"hardDelete": "true"})
    found = (await tenant_api.get(f"/api/user/{user['id']}")).json()["user"]
    assert found["registrations"] == []


# Copies


@pytest.mark.requirement("core-9-sourceApplicationId")
async def test_copy_has_its_own_client_id_and_secret(tenant_api) -> None:
    source = await make(
        tenant_api,
        data={"a": 1},
        roles=[{"name": "r", "isDefault": True}],
        scopes=[{"name": "s", "required": True}],
        oauthConfiguration={"authorizedRedirectURLs": ["https://a.example.com"], "logoutBehavior": "RedirectOnly"},
    )
    body = {"sourceApplicationId": source["id"].upper(), "application": {"name": "Copy", "data": {"ignored": 1}}}
    copy = await make(tenant_api, body)
    assert (copy["name"], copy["data"]) == ("Copy", {"a": 1})
    for section in ("jwtConfiguration", "registrationConfiguration", "loginConfiguration"):
        assert copy[section] == source[section]
    one, other = copy["oauthConfiguration"], source["oauthConfiguration"]
    own = {"clientId": "", "clientSecret": ""}
    assert {**one, **own} == {**other, **own}
    assert one["clientSecret"] != other["clientSecret"]
    assert one["clientId"] == copy["id"]
    assert [(role["name"], role["isDefault"]) for role in copy["roles"]] == [("r", True)]
    assert copy["roles"][0]["id"] != source["roles"][0]["id"]
    assert copy["scopes"][0]["applicationId"] == copy["id"]
    unnamed = await tenant_api.post("/api/application", json={"sourceApplicationId": source["id"]})
    assert codes(unnamed) == {"[blank]application.name"}


@pytest.mark.requirement("core-9-sourceApplicationId")
async def test_source_of_copy_must_belong_to_tenant(api, tenant_api) -> None:
    foreign = await make(api)
    for source in (foreign["id"], new_id(), "nonsense", 5, {"$ne": None}):
        body = {"sourceApplicationId": source, "application": {"name": "x"}}
        assert codes(await tenant_api.post("/api/application", json=body)) == {"[invalid]sourceApplicationId"}


# OAuth configuration


@pytest.mark.requirement("core-9-oauth-configuration")
async def test_oauth_configuration_hides_secret_without_api_key(http, api) -> None:
    made = await make(api, oauthConfiguration={"logoutURL": "https://a.example.com/out"})
    path = f"/api/application/{made['id']}/oauth-configuration"
    full = (await api.get(path)).json()
    public = (await http.get(path)).json()
    assert full["oauthConfiguration"] == made["oauthConfiguration"]
    assert public["oauthConfiguration"] == {k: v for k, v in made["oauthConfiguration"].items() if k != "clientSecret"}
    for answer in (full, public):
        assert answer["httpSessionMaxInactiveInterval"] == 3600
        assert answer["logoutURL"] == "https://a.example.com/out"
    assert made["oauthConfiguration"]["clientSecret"] not in str(public)
    assert (await http.get(path, headers={"Authorization": "wrong"})).status_code == 401
    assert (await http.get(f"/api/application/{new_id()}/oauth-configuration")).status_code == 404
    assert codes(await http.get("/api/application/x/oauth-configuration")) == {"[couldNotConvert]applicationId"}


# Roles and scopes


@pytest.mark.requirement("core-9-role-operations", "service-8")
async def test_roles_are_created_updated_and_deleted(api, plain) -> None:
    path, role_id = f"/api/application/{plain['id']}/role", new_id()
    made = (await api.post(path, json={"role": {"name": "reader", "id": new_id()}})).json()["role"]
    assert made.keys() == {"id", "name", "isDefault", "isSuperRole", "insertInstant", "lastUpdateInstant"}
    assert (made["isDefault"], made["isSuperRole"]) == (False, False)
    given = (await api.post(f"{path}/{role_id}", json={"role": {"name": "writer", "isDefault": True}})).json()["role"]
    assert given["id"] == role_id
    assert codes(await api.post(f"{path}/{role_id}", json={"role": {"name": "x"}})) == {"[duplicate]roleId"}
    assert codes(await api.post(path, json={"role": {"name": "reader"}})) == {"[duplicate]role.name"}
    assert codes(await api.post(path, json={"role": {}})) == {"[blank]role.name"}
    assert codes(await api.post(path, json={})) == {"[missing]role"}
    body = {"role": {"name": "author", "description": "writes", "id": new_id()}}
    changed = (await api.put(f"{path}/{role_id}", json=body)).json()["role"]
    assert (changed["id"], changed["name"], changed["isDefault"]) == (role_id, "author", False)
    assert changed["insertInstant"] == given["insertInstant"]
    assert codes(await api.put(f"{path}/{role_id}", json={"role": {"name": "reader"}})) == {"[duplicate]role.name"}
    patched = (await api.patch(f"{path}/{role_id}", json={"role": {"isSuperRole": True}})).json()["role"]
    assert (patched["description"], patched["isSuperRole"]) == ("writes", True)
    names = [role["name"] for role in (await shown(api, plain))["roles"]]
    assert names == ["reader", "author"]
    assert (await api.delete(f"{path}/{role_id}")).status_code == 200
    assert (await api.delete(f"{path}/{role_id}")).status_code == 404
    assert (await api.delete(path, params={"name": "reader"})).status_code == 200
    assert (await api.delete(path, params={"name": "reader"})).status_code == 404
    assert codes(await api.delete(path)) == {"[missing]roleId"}
    assert (await shown(api, plain))["roles"] == []
    assert (await api.get(path)).status_code == 405
    assert (await api.get(f"{path}/{role_id}")).status_code == 405


@pytest.mark.requirement("core-9-scope-names", "core-9-scope-operations", "service-8")
async def test_scopes_are_created_updated_and_deleted_and_keep_their_name(api, plain) -> None:
    path = f"/api/application/{plain['id']}/scope"
    body = {"scope": {"name": "read:mail", "defaultConsentMessage": "Read your mail", "data": {"a": 1}}}
    made = (await api.post(path, json=body)).json()["scope"]
    assert made.keys() == {
        "id", "applicationId", "name", "data", "defaultConsentMessage", "required", "insertInstant",
        "lastUpdateInstant",
    }  # fmt: skip
    assert (made["applicationId"], made["required"]) == (plain["id"], False)
    assert (await api.get(f"{path}/{made['id']}")).json() == {"scope": made}
    change = {"scope": {"name": "other", "required": True, "applicationId": new_id()}}
    changed = (await api.put(f"{path}/{made['id']}", json=change)).json()["scope"]
    assert (changed["name"], changed["required"], changed["applicationId"]) == ("read:mail", True, plain["id"])
    assert "defaultConsentMessage" not in changed
    patched = (await api.patch(f"{path}/{made['id']}", json={"scope": {"name": "x", "data": {"b": 2}}})).json()["scope"]
    assert (patched["name"], patched["data"]) == ("read:mail", {"b": 2})
    assert codes(await api.post(path, json=body)) == {"[duplicate]scope.name"}
    assert codes(await api.post(path, json={"scope": {"name": ""}})) >= {"[blank]scope.name"}
    for name in ("openid", "offline_access", "profile", "email", "phone", "address", "target-entity:x", "idp-link:x"):
        assert codes(await api.post(path, json={"scope": {"name": name}})) == {"[invalid]scope.name"}
    for name in ("a b", 'a"b', "a\\b", "a\tb", "é"):
        assert codes(await api.post(path, json={"scope": {"name": name}})) == {"[invalid]scope.name"}
    assert (await api.delete(f"{path}/{made['id']}")).status_code == 200
    assert (await api.get(f"{path}/{made['id']}")).status_code == 404


@pytest.mark.requirement("core-9-scope-operations")
@pytest.mark.parametrize("part", ["role", "scope"])
async def test_roles_and_scopes_belong_to_application_and_tenant(api, tenant_api, part) -> None:
    mine, other, foreign = await make(api), await make(api), await make(tenant_api)
    made = (await api.post(f"/api/application/{mine['id']}/{part}", json={part: {"name": "p"}})).json()[part]
    for method in ("PUT", "PATCH", "DELETE"):
        path = f"/api/application/{other['id']}/{part}/{made['id']}"
        assert (await api.request(method, path, json={part: {"name": "q"}})).status_code == 404
    path = f"/api/application/{foreign['id']}/{part}"
    assert (await api.post(path, json={part: {"name": "q"}})).status_code == 404
    assert (await api.post(f"/api/application/{new_id()}/{part}", json={part: {"name": "q"}})).status_code == 404
    assert codes(await api.post(f"/api/application/x/{part}", json={})) == {"[couldNotConvert]applicationId"}
    assert codes(await api.put(f"/api/application/{mine['id']}/{part}/x", json={})) == {f"[couldNotConvert]{part}Id"}


@pytest.mark.requirement("core-9-role-operations")
async def test_concurrently_added_roles_and_scopes_are_all_kept(api) -> None:
    made = await make(api)
    path = f"/api/application/{made['id']}/role"
    answers = await asyncio.gather(*(api.post(path, json={"role": {"name": f"r{n}"}}) for n in range(4)))
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(role["name"] for role in (await shown(api, made))["roles"]) == ["r0", "r1", "r2", "r3"]


@pytest.mark.requirement("core-9-role-operations")
async def test_patch_of_role_does_not_affect_others(api, plain) -> None:
    path = f"/api/application/{plain['id']}/role"
    made = (await api.post(path, json={"role": {"name": "patched"}})).json()["role"]
    operations = [{"op": "add", "path": "/role/description", "value": "d"}, {"op": "add", "path": "/x", "value": 1}]
    headers = {"Content-Type": "application/json-patch+json"}
    answer = await api.patch(f"{path}/{made['id']}", json=operations, headers=headers)
    assert answer.json()["role"]["description"] == "d"
    assert (await api.delete(f"{path}/{made['id']}")).status_code == 200


# Search


@pytest.mark.requirement("core-9-search")
async def test_search_by_name_state_and_tenant(service, tenant_api, tenant) -> None:
    made = [await make(tenant_api, name=name) for name in ("Beta app", "Alpha app", "Gamma")]
    await tenant_api.delete(f"/api/application/{made[0]['id']}")

    async def found(**search: Any) -> list[str]:
        by_body = (await tenant_api.post("/api/application/search", json={"search": search})).json()
        by_query = (await tenant_api.get("/api/application/search", params=search)).json()
        assert by_body == by_query
        assert by_body["total"] == len(by_body["applications"])
        return [one["name"] for one in by_body["applications"]]

    assert await found() == ["Alpha app", "Beta app", "Gamma"]
    assert await found(name="APP") == ["Alpha app", "Beta app"]
    assert await found(name="*a app") == ["Alpha app", "Beta app"]
    assert await found(name="gam*") == ["Gamma"]
    assert await found(state="Active") == ["Alpha app", "Gamma"]
    assert await found(state="Inactive", name="app") == ["Beta app"]
    assert await found(orderBy="name DESC") == ["Gamma", "Beta app", "Alpha app"]
    assert await found(orderBy="tenant, insertInstant") == ["Beta app", "Alpha app", "Gamma"]
    assert await found(tenantId=tenant["id"]) == ["Alpha app", "Beta app", "Gamma"]
    assert await found(tenantId=DEFAULT_TENANT) == []
    assert await found(universal=True) == []
    assert await found(universal="false", name="Gamma") == ["Gamma"]
    assert codes(await tenant_api.get("/api/application/search", params={"universal": "x"})) == {
        "[couldNotConvert]universal"
    }
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        answer = await everywhere.get("/api/application/search", params={"tenantId": tenant["id"]})
        assert answer.json()["total"] == 3


@pytest.mark.requirement("core-9-oauthConfiguration")
@pytest.mark.parametrize("member", ["authorizedRedirectURLs", "authorizedOriginURLs", "authorizedResourceUris"])
async def test_lists_are_bounded(tenant_api, member):
    """Validating each entry blocks the event loop."""
    urls = [f"https://{number}.example.com/" for number in range(1001)]
    answer = await tenant_api.post(
        "/api/application", json={"application": {"name": "x", "oauthConfiguration": {member: urls}}}
    )
    path = f"application.oauthConfiguration.{member}"
    assert [error["code"] for error in answer.json()["fieldErrors"][path]] == [f"[tooMany]{path}"]
