"""Tenants: every default and constraint of their table, copies, webhooks, deletion, search, password rules."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from identity import app
from identity.errors import Conflict
from identity.ids import new_id
from identity.operations.configuration import tenants
from tests import internals
from tests.conftest import DEFAULT_TENANT, EMAIL_TEMPLATE, SUPER_KEY, checking_client
from tests.members import NOTHING, at, codes, contains, with_member

Document = dict[str, Any]

"""Stands for a member that is not shown."""

BYTES = {"length": 32, "type": "randomBytes"}
LETTERS = {"length": 6, "type": "randomAlphaNumeric"}
DIGITS = {"length": 6, "type": "randomDigits"}
LIMIT = {"enabled": False, "limit": 5, "timePeriodInSeconds": 60}
INTERNAL_CONNECTOR = "e3306678-a53a-4964-9040-1c96f36dda72"
SMS = "tenant.multiFactorConfiguration.sms"

DEFAULTS: Document = {
    "data": {},
    "state": "Active",
    "themeId": "75a068fd-e94b-451a-9aeb-3ddb9a3b5987",
    "baseURL": NOTHING,
    "httpSessionMaxInactiveInterval": 3600,
    "logoutURL": NOTHING,
    "loginConfiguration.requireAuthentication": True,
    "accessControlConfiguration.uiIPAccessControlListId": NOTHING,
    "ssoConfiguration.deviceTrustTimeToLiveInSeconds": 31536000,
    "ssoConfiguration.allowAccessTokenBootstrap": False,
    "jwtConfiguration.timeToLiveInSeconds": 3600,
    "jwtConfiguration.refreshTokenTimeToLiveInMinutes": 43200,
    "jwtConfiguration.refreshTokenExpirationPolicy": "Fixed",
    "jwtConfiguration.refreshTokenSlidingWindowConfiguration.maximumTimeToLiveInMinutes": 43200,
    "jwtConfiguration.refreshTokenUsagePolicy": "Reusable",
    "jwtConfiguration.refreshTokenOneTimeUseConfiguration.gracePeriodInSeconds": 0,
    "jwtConfiguration.refreshTokenRevocationPolicy": {
        "onLoginPrevented": True,
        "onMultiFactorEnable": False,
        "onOneTimeTokenReuse": True,
        "onPasswordChanged": True,
    },
    "externalIdentifierConfiguration.authorizationGrantIdTimeToLiveInSeconds": 30,
    "externalIdentifierConfiguration.changePasswordIdTimeToLiveInSeconds": 600,
    "externalIdentifierConfiguration.changePasswordIdGenerator": BYTES,
    "externalIdentifierConfiguration.deviceCodeTimeToLiveInSeconds": 300,
    "externalIdentifierConfiguration.deviceUserCodeIdGenerator": LETTERS,
    "externalIdentifierConfiguration.emailVerificationIdTimeToLiveInSeconds": 86400,
    "externalIdentifierConfiguration.emailVerificationIdGenerator": BYTES,
    "externalIdentifierConfiguration.emailVerificationOneTimeCodeGenerator": LETTERS,
    "externalIdentifierConfiguration.externalAuthenticationIdTimeToLiveInSeconds": 300,
    "externalIdentifierConfiguration.identityProviderConnectionTestTimeToLiveInSeconds": 1800,
    "externalIdentifierConfiguration.loginIntentTimeToLiveInSeconds": 1800,
    "externalIdentifierConfiguration.oneTimePasswordTimeToLiveInSeconds": 60,
    "externalIdentifierConfiguration.passwordlessLoginTimeToLiveInSeconds": 180,
    "externalIdentifierConfiguration.passwordlessLoginGenerator": BYTES,
    "externalIdentifierConfiguration.passwordlessLoginOneTimeCodeGenerator": DIGITS,
    "externalIdentifierConfiguration.pendingAccountLinkTimeToLiveInSeconds": 3600,
    "externalIdentifierConfiguration.phoneVerificationIdTimeToLiveInSeconds": 86400,
    "externalIdentifierConfiguration.phoneVerificationIdGenerator": BYTES,
    "externalIdentifierConfiguration.phoneVerificationOneTimeCodeGenerator": LETTERS,
    "externalIdentifierConfiguration.registrationVerificationIdTimeToLiveInSeconds": 86400,
    "externalIdentifierConfiguration.registrationVerificationIdGenerator": BYTES,
    "externalIdentifierConfiguration.registrationVerificationOneTimeCodeGenerator": LETTERS,
    "externalIdentifierConfiguration.rememberOAuthScopeConsentChoiceTimeToLiveInSeconds": 2592000,
    "externalIdentifierConfiguration.samlv2AuthNRequestIdTimeToLiveInSeconds": 300,
    "externalIdentifierConfiguration.setupPasswordIdTimeToLiveInSeconds": 86400,
    "externalIdentifierConfiguration.setupPasswordIdGenerator": BYTES,
    "externalIdentifierConfiguration.trustTokenTimeToLiveInSeconds": 180,
    "externalIdentifierConfiguration.twoFactorIdTimeToLiveInSeconds": 300,
    "externalIdentifierConfiguration.twoFactorOneTimeCodeIdTimeToLiveInSeconds": 60,
    "externalIdentifierConfiguration.twoFactorOneTimeCodeIdGenerator": DIGITS,
    "externalIdentifierConfiguration.twoFactorTrustIdTimeToLiveInSeconds": 2592000,
    "externalIdentifierConfiguration.webAuthnAuthenticationChallengeTimeToLiveInSeconds": 180,
    "externalIdentifierConfiguration.webAuthnRegistrationChallengeTimeToLiveInSeconds": 180,
    "emailConfiguration.host": "localhost",
    "emailConfiguration.port": 25,
    "emailConfiguration.security": "NONE",
    "emailConfiguration.username": NOTHING,
    "emailConfiguration.password": NOTHING,
    "emailConfiguration.additionalHeaders": [],
    "emailConfiguration.defaultFromEmail": "change-me@example.com",
    "emailConfiguration.defaultFromName": NOTHING,
    "emailConfiguration.verifyEmail": False,
    "emailConfiguration.verifyEmailWhenChanged": False,
    "emailConfiguration.verificationEmailTemplateId": NOTHING,
    "emailConfiguration.verificationStrategy": "ClickableLink",
    "emailConfiguration.implicitEmailVerificationAllowed": True,
    "emailConfiguration.unverified.behavior": "Allow",
    "emailConfiguration.unverified.allowEmailChangeWhenGated": False,
    "emailConfiguration.debug": False,
    "eventConfiguration.events": {},
    "failedAuthenticationConfiguration": {
        "actionCancelPolicy": {"onPasswordReset": False},
        "actionDuration": 3,
        "actionDurationUnit": "MINUTES",
        "emailUser": False,
        "resetCountInSeconds": 60,
        "tooManyAttempts": 5,
    },
    "multiFactorConfiguration.debug": False,
    "multiFactorConfiguration.loginPolicy": "Enabled",
    "multiFactorConfiguration.authenticator": {
        "algorithm": "HmacSHA1",
        "codeLength": 6,
        "enabled": True,
        "timeStep": 30,
    },
    "multiFactorConfiguration.email": {"enabled": False},
    "multiFactorConfiguration.sms": {"enabled": False},
    # The published default is salted-pbkdf2-hmac-sha256 with a factor of 24000; ours is stronger by decision.
    "passwordEncryptionConfiguration.encryptionScheme": "argon2id",
    "passwordEncryptionConfiguration.encryptionSchemeFactor": 2,
    "passwordEncryptionConfiguration.modifyEncryptionSchemeOnLogin": False,
    "passwordValidationRules": {
        "breachDetection": {"enabled": False, "matchMode": "High", "onLogin": "Off"},
        "disallowUserLoginId": False,
        "maxLength": 256,
        "minLength": 8,
        "rememberPreviousPasswords": {"count": 1, "enabled": False},
        "requireMixedCase": False,
        "requireNonAlpha": False,
        "requireNumber": False,
        "validateOnLogin": False,
    },
    "maximumPasswordAge": {"days": 180, "enabled": False},
    "minimumPasswordAge": {"enabled": False, "seconds": 30},
    "rateLimitConfiguration": {
        "failedLogin": LIMIT,
        "forgotPassword": LIMIT,
        "sendEmailVerification": LIMIT,
        "sendPasswordless": LIMIT,
        "sendPasswordlessPhone": LIMIT,
        "sendPhoneVerification": LIMIT,
        "sendRegistrationVerification": LIMIT,
        "sendTwoFactor": LIMIT,
    },
    "registrationConfiguration.blockedDomains": [],
    "usernameConfiguration.unique": {
        "enabled": False,
        "numberOfDigits": 5,
        "separator": "#",
        "strategy": "OnCollision",
    },
    "userDeletePolicy.unverified": {"enabled": False, "numberOfDaysToRetain": 120},
    "familyConfiguration": {
        "allowChildRegistrations": True,
        "deleteOrphanedAccounts": False,
        "deleteOrphanedAccountsDays": 30,
        "enabled": False,
        "maximumChildAge": 12,
        "minimumOwnerAge": 21,
        "parentEmailRequired": False,
    },
    "captchaConfiguration": {"captchaMethod": "GoogleRecaptchaV3", "enabled": False, "threshold": 0.5},
    "connectorPolicies": [{"connectorId": INTERNAL_CONNECTOR, "domains": ["*"], "migrate": False}],
    "oauthConfiguration": {"clientRegistrationEnabled": False},
    "lambdaConfiguration": {},
    "scimServerConfiguration": {"enabled": False},
    "webAuthnConfiguration": {
        "bootstrapWorkflow": {
            "authenticatorAttachmentPreference": "any",
            "enabled": False,
            "userVerificationRequirement": "required",
        },
        "debug": False,
        "enabled": False,
        "reauthenticationWorkflow": {
            "authenticatorAttachmentPreference": "platform",
            "enabled": False,
            "userVerificationRequirement": "required",
        },
    },
}


async def make(api: httpx.AsyncClient, body: Document | None = None, **members: Any) -> Document:
    document = {"tenant": {"name": f"Tenant {new_id()}", **members}, **(body or {})}
    answer = await api.post("/api/tenant", json=document)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["tenant"])


async def hook(api: httpx.AsyncClient, **members: Any) -> str:
    body = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1, **members}
    return str((await api.post("/api/webhook", json={"webhook": body})).json()["webhook"]["id"])


async def tenants_of(api: httpx.AsyncClient, webhook_id: str) -> list[str]:
    found = (await api.get(f"/api/webhook/{webhook_id}")).json()["webhook"]["tenantIds"]
    return [str(tenant_id) for tenant_id in found]


@pytest.fixture(scope="module")
async def plain(service: app.Service) -> Document:
    """A tenant created with only a name."""
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api:
        return await make(api)


@pytest.mark.requirement(
    "audit-a8-refresh-reuse",
    "core-8-accessControlConfiguration",
    "core-8-captchaConfiguration",
    "core-8-clientRiskConfiguration",
    "core-8-emailConfiguration",
    "core-8-eventConfiguration",
    "core-8-externalIdentifierConfiguration",
    "core-8-failedAuthenticationConfiguration",
    "core-8-familyConfiguration",
    "core-8-formConfiguration",
    "core-8-jwtConfiguration",
    "core-8-lambdaConfiguration",
    "core-8-loginConfiguration",
    "core-8-maximumPasswordAge",
    "core-8-members",
    "core-8-minimumPasswordAge",
    "core-8-multiFactorConfiguration",
    "core-8-oauthConfiguration",
    "core-8-passwordEncryptionConfiguration",
    "core-8-passwordValidationRules",
    "core-8-phoneConfiguration",
    "core-8-rateLimitConfiguration",
    "core-8-registrationConfiguration",
    "core-8-scimServerConfiguration",
    "core-8-ssoConfiguration",
    "core-8-userDeletePolicy",
    "core-8-usernameConfiguration",
    "core-8-webAuthnConfiguration",
    "service-7",
)
@pytest.mark.parametrize("path", DEFAULTS)
async def test_default(plain, path) -> None:
    assert at(plain, path) == DEFAULTS[path]


@pytest.mark.requirement("core-8-crud")
async def test_put_of_returned_object_changes_nothing(api, plain) -> None:
    answer = await api.put(f"/api/tenant/{plain['id']}", json={"tenant": plain})
    assert {**answer.json()["tenant"], "lastUpdateInstant": 0} == {**plain, "lastUpdateInstant": 0}


REFUSED: list[tuple[str, Any, str]] = [
    ("name", "", "blank"),
    ("name", "x" * 192, "tooLong"),
    ("issuer", " ", "blank"),
    ("baseURL", "/relative", "invalid"),
    ("baseURL", "custom://app.example.com", "invalid"),
    ("baseURL", "https://user@example.com/", "invalid"),
    ("logoutURL", "javascript:alert(1)", "invalid"),
    ("logoutURL", "/relative", "invalid"),
    ("httpSessionMaxInactiveInterval", -1, "invalid"),
    ("httpSessionMaxInactiveInterval", 2**31, "invalid"),
    ("jwtConfiguration.accessTokenKeyId", "00000000-0000-4000-8000-000000000000", "invalid"),
    ("jwtConfiguration.idTokenKeyId", "nonsense", "couldNotConvert"),
    ("jwtConfiguration.timeToLiveInSeconds", -1, "invalid"),
    ("jwtConfiguration.timeToLiveInSeconds", 2**63 - 1, "invalid"),
    ("jwtConfiguration.refreshTokenTimeToLiveInMinutes", -1, "invalid"),
    ("jwtConfiguration.refreshTokenExpirationPolicy", "Never", "invalid"),
    ("jwtConfiguration.refreshTokenOneTimeUseConfiguration.gracePeriodInSeconds", 86401, "invalid"),
    ("externalIdentifierConfiguration.authorizationGrantIdTimeToLiveInSeconds", 601, "invalid"),
    ("externalIdentifierConfiguration.authorizationGrantIdTimeToLiveInSeconds", 0, "invalid"),
    ("externalIdentifierConfiguration.trustTokenTimeToLiveInSeconds", 0, "invalid"),
    ("emailConfiguration.port", 0, "invalid"),
    ("emailConfiguration.port", 65536, "invalid"),
    ("emailConfiguration.security", "tls", "invalid"),
    ("emailConfiguration.defaultFromEmail", "unknown", "notEmail"),
    ("emailConfiguration.verificationStrategy", "FormField", "invalid"),
    ("failedAuthenticationConfiguration.tooManyAttempts", 0, "invalid"),
    ("failedAuthenticationConfiguration.actionDurationUnit", "SECONDS", "invalid"),
    ("multiFactorConfiguration.loginPolicy", "Sometimes", "invalid"),
    ("passwordEncryptionConfiguration.encryptionScheme", "rot13", "invalid"),
    ("passwordEncryptionConfiguration.encryptionSchemeFactor", -1, "invalid"),
    ("passwordEncryptionConfiguration.encryptionSchemeFactor", 2**31 - 1, "invalid"),
    ("passwordValidationRules.minLength", 0, "invalid"),
    ("passwordValidationRules.maxLength", 257, "invalid"),
    ("passwordValidationRules.rememberPreviousPasswords.count", 0, "invalid"),
    ("passwordValidationRules.breachDetection.matchMode", "Low-ish", "invalid"),
    ("usernameConfiguration.unique.numberOfDigits", 2, "invalid"),
    ("usernameConfiguration.unique.numberOfDigits", 11, "invalid"),
    ("usernameConfiguration.unique.separator", "a", "invalid"),
    ("usernameConfiguration.unique.separator", "##", "invalid"),
    ("userDeletePolicy.unverified.numberOfDaysToRetain", 0, "invalid"),
    ("captchaConfiguration.threshold", 1.1, "invalid"),
    ("captchaConfiguration.captchaMethod", "Puzzle", "invalid"),
    ("accessControlConfiguration.uiIPAccessControlListId", "00000000-0000-4000-8000-000000000000", "invalid"),
]


POSITIVE = [
    *(f"externalIdentifierConfiguration.{name}" for name in (
        "authorizationGrantIdTimeToLiveInSeconds", "changePasswordIdTimeToLiveInSeconds",
        "deviceCodeTimeToLiveInSeconds", "emailVerificationIdTimeToLiveInSeconds",
        "externalAuthenticationIdTimeToLiveInSeconds", "identityProviderConnectionTestTimeToLiveInSeconds",
        "loginIntentTimeToLiveInSeconds", "oneTimePasswordTimeToLiveInSeconds", "passwordlessLoginTimeToLiveInSeconds",
        "pendingAccountLinkTimeToLiveInSeconds", "phoneVerificationIdTimeToLiveInSeconds",
        "registrationVerificationIdTimeToLiveInSeconds", "rememberOAuthScopeConsentChoiceTimeToLiveInSeconds",
        "samlv2AuthNRequestIdTimeToLiveInSeconds", "setupPasswordIdTimeToLiveInSeconds",
        "trustTokenTimeToLiveInSeconds",
        "twoFactorIdTimeToLiveInSeconds", "twoFactorOneTimeCodeIdTimeToLiveInSeconds",
        "twoFactorTrustIdTimeToLiveInSeconds", "webAuthnAuthenticationChallengeTimeToLiveInSeconds",
        "webAuthnRegistrationChallengeTimeToLiveInSeconds",
    )),
    "jwtConfiguration.timeToLiveInSeconds",
    "jwtConfiguration.refreshTokenTimeToLiveInMinutes",
    "jwtConfiguration.refreshTokenSlidingWindowConfiguration.maximumTimeToLiveInMinutes",
    "ssoConfiguration.deviceTrustTimeToLiveInSeconds",
    "failedAuthenticationConfiguration.tooManyAttempts",
    "failedAuthenticationConfiguration.resetCountInSeconds",
    "failedAuthenticationConfiguration.actionDuration",
    "passwordValidationRules.minLength",
    "passwordValidationRules.maxLength",
    "passwordValidationRules.rememberPreviousPasswords.count",
    "maximumPasswordAge.days",
    "minimumPasswordAge.seconds",
    *(f"rateLimitConfiguration.{name}.{member}" for member in ("limit", "timePeriodInSeconds") for name in (
        "failedLogin", "forgotPassword", "sendEmailVerification", "sendPasswordless", "sendPasswordlessPhone",
        "sendPhoneVerification", "sendRegistrationVerification", "sendTwoFactor",
    )),
    "userDeletePolicy.unverified.numberOfDaysToRetain",
    "familyConfiguration.maximumChildAge",
    "familyConfiguration.minimumOwnerAge",
    "familyConfiguration.deleteOrphanedAccountsDays",
]  # fmt: skip


def merged(paths: dict[str, Any]) -> Document:
    """One document with all these members."""
    document: Document = {}
    for path, value in paths.items():
        holder, (*steps, last) = document, path.split(".")
        for step in steps:
            holder = holder.setdefault(step, {})
        holder[last] = value
    return document


def is_primitive(path: str) -> bool:
    """Whether the Java client sends 0 for this member when it is not set."""
    return path.startswith("rateLimitConfiguration.") or path in {
        "jwtConfiguration.timeToLiveInSeconds", "jwtConfiguration.refreshTokenTimeToLiveInMinutes",
    }  # fmt: skip


@pytest.mark.requirement(
    "core-8-externalIdentifierConfiguration",
    "core-8-failedAuthenticationConfiguration",
    "core-8-familyConfiguration",
    "core-8-jwtConfiguration",
    "core-8-maximumPasswordAge",
    "core-8-minimumPasswordAge",
    "core-8-passwordValidationRules",
    "core-8-rateLimitConfiguration",
    "core-8-ssoConfiguration",
    "core-8-userDeletePolicy",
)
async def test_numbers_must_be_positive(api) -> None:
    name = f"Tenant {new_id()}"
    for value, refused in ((0, [path for path in POSITIVE if not is_primitive(path)]), (-1, POSITIVE)):
        body = {"tenant": {"name": name, **merged(dict.fromkeys(POSITIVE, value))}}
        assert codes(await api.post("/api/tenant", json=body)) == {f"[invalid]tenant.{path}" for path in refused}
    made = await make(api, **merged(dict.fromkeys(POSITIVE, 1)))
    assert [at(made, path) for path in POSITIVE] == [1] * len(POSITIVE)


@pytest.mark.requirement("audit-b5-json")
async def test_zero_of_java_primitive_is_treated_as_absent(api) -> None:
    given = dict.fromkeys(filter(is_primitive, POSITIVE), 0)
    default, made = await make(api), await make(api, **merged(given))
    for path in given:
        assert at(made, path) == at(default, path), path


@pytest.mark.requirement("audit-b5-json")
@pytest.mark.parametrize(("scheme", "factor"), [("bcrypt", 12), ("salted-pbkdf2-hmac-sha256", 24_000), ("argon2id", 2)])
async def test_factor_of_zero_means_scheme_default(api, scheme, factor) -> None:
    for given in ({"encryptionSchemeFactor": 0}, {"encryptionSchemeFactor": "0"}, {}):
        made = await make(api, passwordEncryptionConfiguration={"encryptionScheme": scheme, **given})
        assert at(made, "passwordEncryptionConfiguration.encryptionSchemeFactor") == factor


GENERATORS = [
    f"externalIdentifierConfiguration.{name}" for name in (
        "changePasswordIdGenerator", "deviceUserCodeIdGenerator", "emailVerificationIdGenerator",
        "emailVerificationOneTimeCodeGenerator", "passwordlessLoginGenerator", "passwordlessLoginOneTimeCodeGenerator",
        "phoneVerificationIdGenerator", "phoneVerificationOneTimeCodeGenerator", "registrationVerificationIdGenerator",
        "registrationVerificationOneTimeCodeGenerator", "setupPasswordIdGenerator", "twoFactorOneTimeCodeIdGenerator",
    )
]  # fmt: skip


@pytest.mark.requirement("core-8-externalIdentifierConfiguration", "core-8-generators")
@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("randomAlpha", 4, 12), ("randomAlphaNumeric", 4, 12), ("randomDigits", 4, 12), ("randomBytes", 16, 128)],
)
async def test_every_generator_enforces_limits_of_its_type(api, kind, least, most) -> None:
    for length in (least, most):
        wanted = {"type": kind, "length": length}
        made = await make(api, **merged(dict.fromkeys(GENERATORS, wanted)))
        assert [at(made, path) for path in GENERATORS] == [wanted] * len(GENERATORS)
    for length in (least - 1, most + 1):
        wanted = {"type": kind, "length": length}
        body = {"tenant": {"name": f"Tenant {new_id()}", **merged(dict.fromkeys(GENERATORS, wanted))}}
        expected = {f"[invalid]tenant.{path}.length" for path in GENERATORS}
        assert codes(await api.post("/api/tenant", json=body)) == expected


@pytest.mark.requirement("core-8-generators")
async def test_generator_type_is_one_of_four(api) -> None:
    body = {
        "tenant": {
            "name": f"Tenant {new_id()}",
            **merged({path: {"type": "dice", "length": 10} for path in GENERATORS}),
        }
    }
    assert codes(await api.post("/api/tenant", json=body)) == {f"[invalid]tenant.{path}.type" for path in GENERATORS}


SWITCHES = [
    "captchaConfiguration.enabled", "emailConfiguration.debug", "emailConfiguration.implicitEmailVerificationAllowed",
    "emailConfiguration.unverified.allowEmailChangeWhenGated", "failedAuthenticationConfiguration.emailUser",
    "failedAuthenticationConfiguration.actionCancelPolicy.onPasswordReset", "familyConfiguration.enabled",
    "familyConfiguration.allowChildRegistrations", "familyConfiguration.deleteOrphanedAccounts",
    "familyConfiguration.parentEmailRequired", "jwtConfiguration.refreshTokenRevocationPolicy.onLoginPrevented",
    "jwtConfiguration.refreshTokenRevocationPolicy.onPasswordChanged",
    "jwtConfiguration.refreshTokenRevocationPolicy.onMultiFactorEnable",
    "jwtConfiguration.refreshTokenRevocationPolicy.onOneTimeTokenReuse", "loginConfiguration.requireAuthentication",
    "maximumPasswordAge.enabled", "minimumPasswordAge.enabled", "multiFactorConfiguration.authenticator.enabled",
    "multiFactorConfiguration.debug", "passwordEncryptionConfiguration.modifyEncryptionSchemeOnLogin",
    "passwordValidationRules.disallowUserLoginId", "passwordValidationRules.rememberPreviousPasswords.enabled",
    "passwordValidationRules.requireMixedCase", "passwordValidationRules.requireNonAlpha",
    "passwordValidationRules.requireNumber", "passwordValidationRules.validateOnLogin",
    "passwordValidationRules.breachDetection.enabled", "rateLimitConfiguration.failedLogin.enabled",
    "rateLimitConfiguration.sendTwoFactor.enabled", "ssoConfiguration.allowAccessTokenBootstrap",
    "userDeletePolicy.unverified.enabled", "usernameConfiguration.unique.enabled",
]  # fmt: skip


@pytest.mark.requirement(
    "core-8-emailConfiguration",
    "core-8-externalIdentifierConfiguration",
    "core-8-failedAuthenticationConfiguration",
    "core-8-jwtConfiguration",
    "core-8-loginConfiguration",
    "core-8-passwordEncryptionConfiguration",
    "core-8-passwordValidationRules",
    "core-8-ssoConfiguration",
)
@pytest.mark.parametrize("value", [True, False])
async def test_every_boolean_is_stored(api, value) -> None:
    keys = {"captchaConfiguration.siteKey": "site", "captchaConfiguration.secretKey": "secret"}
    made = await make(api, **merged({**dict.fromkeys(SWITCHES, value), **keys}))
    assert {path: at(made, path) for path in SWITCHES} == dict.fromkeys(SWITCHES, value)


@pytest.mark.requirement(
    "core-8-clientRiskConfiguration",
    "core-8-formConfiguration",
    "core-8-members",
    "core-8-phoneConfiguration",
    "core-8-scimServerConfiguration",
    "core-8-webAuthnConfiguration",
)
async def test_stored_members_are_returned_and_unknown_ones_dropped(api) -> None:
    forms = {form["type"]: form["id"] for form in (await api.get("/api/form")).json()["forms"]}
    echoed = {
        "scimServerConfiguration": {"enabled": True, "schemas": {"a": 1}},
        "webAuthnConfiguration": {"enabled": True, "relyingPartyName": "x", "bootstrapWorkflow": {"enabled": False}},
        "phoneConfiguration": {"unverified": {"behavior": "Gated"}},
        "clientRiskConfiguration": {"enabled": True, "botDetected": False, "impossibleTravel": True},
        "formConfiguration": {"adminUserFormId": forms["adminUser"]},
        "captchaConfiguration": {**DEFAULTS["captchaConfiguration"], "siteKey": "site", "threshold": 1},
        "baseURL": "https://links.example.com/base",
        "logoutURL": "https://example.com/bye",
    }
    made = await make(api, **echoed, unknownMember=1, state="Inactive", configured=False)
    assert contains(made, echoed)
    assert "unknownMember" not in made
    assert made["state"] == "Active"
    assert {"baseURL", "logoutURL"}.isdisjoint(await make(api, baseURL=" ", logoutURL=""))


@pytest.mark.requirement(
    "core-8-accessControlConfiguration",
    "core-8-captchaConfiguration",
    "core-8-emailConfiguration",
    "core-8-externalIdentifierConfiguration",
    "core-8-failedAuthenticationConfiguration",
    "core-8-jwtConfiguration",
    "core-8-members",
    "core-8-multiFactorConfiguration",
    "core-8-passwordEncryptionConfiguration",
    "core-8-passwordValidationRules",
    "core-8-usernameConfiguration",
    "service-7",
)
@pytest.mark.parametrize(("path", "value", "kind"), REFUSED, ids=lambda part: str(part)[:60])
async def test_constraint(api, path, value, kind) -> None:
    body = with_member(f"tenant.{path}", value)
    body["tenant"].setdefault("name", f"Tenant {new_id()}")
    answer = await api.post("/api/tenant", json=body)
    assert codes(answer) == {f"[{kind}]tenant.{path}"}
    assert set(answer.json()["fieldErrors"]) == {f"tenant.{path}"}


@pytest.mark.requirement(
    "core-8-emailConfiguration",
    "core-8-jwtConfiguration",
    "core-8-multiFactorConfiguration",
    "core-8-passwordValidationRules",
    "service-7",
)
@pytest.mark.parametrize(
    ("members", "code"),
    [
        (
            {"emailConfiguration": {"verifyEmail": True}},
            "[missing]tenant.emailConfiguration.verificationEmailTemplateId",
        ),
        (
            {"passwordValidationRules": {"minLength": 20, "maxLength": 10}},
            "[invalid]tenant.passwordValidationRules.maxLength",
        ),
        (
            {"passwordValidationRules": {"breachDetection": {"enabled": True, "onLogin": "NotifyUser"}}},
            "[missing]tenant.passwordValidationRules.breachDetection.notifyUserEmailTemplateId",
        ),
        (
            {
                "jwtConfiguration": {
                    "refreshTokenExpirationPolicy": "SlidingWindowWithMaximumLifetime",
                    "refreshTokenSlidingWindowConfiguration": {"maximumTimeToLiveInMinutes": 43199},
                }
            },
            "[invalid]tenant.jwtConfiguration.refreshTokenSlidingWindowConfiguration.maximumTimeToLiveInMinutes",
        ),
        (
            {"multiFactorConfiguration": {"email": {"enabled": True}}},
            "[missing]tenant.multiFactorConfiguration.email.templateId",
        ),
        (
            {"multiFactorConfiguration": {"sms": {"enabled": True, "templateId": INTERNAL_CONNECTOR}}},
            f"[missing]{SMS}.messengerId [invalid]{SMS}.templateId",
        ),
        (
            {"externalIdentifierConfiguration": {"changePasswordIdGenerator": {"type": "randomBytes", "length": 15}}},
            "[invalid]tenant.externalIdentifierConfiguration.changePasswordIdGenerator.length",
        ),
        (
            {"externalIdentifierConfiguration": {"deviceUserCodeIdGenerator": {"type": "randomDigits", "length": 13}}},
            "[invalid]tenant.externalIdentifierConfiguration.deviceUserCodeIdGenerator.length",
        ),
        (
            {"connectorPolicies": [{"connectorId": "00000000-0000-4000-8000-000000000000"}]},
            "[invalid]tenant.connectorPolicies[0].connectorId",
        ),
        (
            {"jwtConfiguration": {"accessTokenVerificationKeyIds": ["00000000-0000-4000-8000-000000000000"]}},
            "[invalid]tenant.jwtConfiguration.accessTokenVerificationKeyIds[0]",
        ),
    ],
)
async def test_conflicting_members(api, members, code) -> None:
    body = {"tenant": {"name": f"Tenant {new_id()}", **members}}
    assert codes(await api.post("/api/tenant", json=body)) == set(code.split())


@pytest.mark.requirement("audit-c1-template")
async def test_disabling_email_verification_keeps_template(api) -> None:
    email = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    path = f"/api/tenant/{(await make(api, emailConfiguration=email))['id']}"
    for is_on in (False, True):
        answer = await api.patch(path, json={"tenant": {"emailConfiguration": {"verifyEmail": is_on}}})
        assert answer.status_code == 200, answer.text
        assert answer.json()["tenant"]["emailConfiguration"]["verificationEmailTemplateId"] == EMAIL_TEMPLATE
    answer = await api.patch(path, json={"tenant": {"emailConfiguration": {"verificationEmailTemplateId": None}}})
    assert codes(answer) == {"[missing]tenant.emailConfiguration.verificationEmailTemplateId"}


@pytest.mark.requirement(
    "core-8-emailConfiguration",
    "core-8-eventConfiguration",
    "core-8-members",
    "core-8-multiFactorConfiguration",
    "core-8-passwordValidationRules",
    "core-8-registrationConfiguration",
    "webhooks-7-1",
)
async def test_cleared_forced_and_normalized_members(api) -> None:
    made = await make(
        api,
        emailConfiguration={"verifyEmailWhenChanged": True, "verificationEmailTemplateId": EMAIL_TEMPLATE},
        multiFactorConfiguration={
            "authenticator": {"enabled": False, "algorithm": "HmacSHA512", "codeLength": 8, "timeStep": 60}
        },
        registrationConfiguration={"blockedDomains": ["EXAMPLE.com", " example.com ", "other.org"]},
        connectorPolicies=[{"connectorId": INTERNAL_CONNECTOR, "domains": ["example.com"], "migrate": True}],
        passwordEncryptionConfiguration={"encryptionScheme": "bcrypt", "encryptionSchemeFactor": 10},
        eventConfiguration={
            "events": {
                "kickstart.success": {"enabled": True},
                "user.create.complete": {"enabled": True, "transactionType": "AbsoluteMajority"},
                "user.create": {"transactionType": "Any"},
            }
        },
    )
    assert made["emailConfiguration"]["verifyEmailWhenChanged"] is False
    assert made["emailConfiguration"]["verificationEmailTemplateId"] == EMAIL_TEMPLATE
    assert made["multiFactorConfiguration"]["authenticator"] == {
        "algorithm": "HmacSHA1",
        "codeLength": 6,
        "enabled": False,
        "timeStep": 30,
    }
    assert made["registrationConfiguration"]["blockedDomains"] == ["example.com", "other.org"]
    assert made["connectorPolicies"] == DEFAULTS["connectorPolicies"]
    appended = {"tenant": {"connectorPolicies": made["connectorPolicies"]}}
    patched = (await api.patch(f"/api/tenant/{made['id']}", json=appended)).json()["tenant"]
    assert patched["connectorPolicies"] == DEFAULTS["connectorPolicies"]
    assert made["passwordValidationRules"]["maxLength"] == 50
    assert made["eventConfiguration"]["events"] == {
        "user.create.complete": {"enabled": True, "transactionType": "None"},
        "user.create": {"enabled": False, "transactionType": "Any"},
    }


@pytest.mark.requirement("core-8-members")
async def test_names_are_unique_case_insensitively(api, plain) -> None:
    taken = {"[duplicate]tenant.name"}
    assert codes(await api.post("/api/tenant", json={"tenant": {"name": plain["name"]}})) == taken
    other = await make(api)
    assert codes(await api.put(f"/api/tenant/{other['id']}", json={"tenant": {"name": plain["name"]}})) == taken
    assert codes(await api.patch(f"/api/tenant/{other['id']}", json={"tenant": {"name": plain["name"]}})) == taken


@pytest.mark.requirement(
    "audit-a2-issuer", "core-8-emailConfiguration", "core-8-members", "core-8-sourceTenantId", "service-7"
)
async def test_copy_includes_all_but_id_name_issuer_and_keys(service, api) -> None:
    source = await make(
        api,
        issuer="https://source.example.com",
        data={"a": 1},
        emailConfiguration={"password": "smtp secret", "host": "mail.example.com"},
        jwtConfiguration={"timeToLiveInSeconds": 77},
    )
    name = f"Copy {new_id()}"
    copy = await make(api, {"sourceTenantId": source["id"].upper(), "tenant": {"name": name, "issuer": "ignored"}})
    assert copy["issuer"] == f"{service.base_url}/{copy['id']}"
    keys = {each["jwtConfiguration"][name] for each in (source, copy) for name in ("accessTokenKeyId", "idTokenKeyId")}
    assert len(keys) == 2
    fixed = {"id": 0, "insertInstant": 0, "lastUpdateInstant": 0, "name": "", "issuer": ""}
    fixed |= {"jwtConfiguration": source["jwtConfiguration"]}
    assert {**copy, **fixed} == {**source, **fixed}
    assert copy["jwtConfiguration"]["timeToLiveInSeconds"] == 77
    assert copy["name"] == name
    stored = await internals.store(service, "tenants").get(None, copy["id"])
    assert stored["emailConfiguration"]["password"] == "smtp secret"
    unnamed = await api.post("/api/tenant", json={"sourceTenantId": source["id"]})
    assert codes(unnamed) == {"[blank]tenant.name"}
    for unknown in (new_id(), "nonsense", 5, {"$ne": None}, []):
        answer = await api.post("/api/tenant", json={"sourceTenantId": unknown, "tenant": {"name": name}})
        assert codes(answer) == {"[invalid]sourceTenantId"}


@pytest.mark.requirement("audit-a5", "core-8-webhookIds", "service-7", "webhooks-7-2")
async def test_webhook_ids_replace_the_whole_set(api) -> None:
    one, other, everywhere = await hook(api), await hook(api), await hook(api, **{"global": True})
    made = await make(api, {"webhookIds": [one, everywhere]})
    assert await tenants_of(api, one) == [made["id"]]
    assert await tenants_of(api, everywhere) == []
    path, body = f"/api/tenant/{made['id']}", {"tenant": {"name": made["name"]}}
    await api.put(path, json={**body, "webhookIds": [other, other.upper()]})
    assert (await tenants_of(api, one), await tenants_of(api, other)) == ([], [made["id"]])
    await api.patch(path, json={"tenant": {"data": {"a": 1}}})
    assert await tenants_of(api, other) == [made["id"]]
    await api.patch(path, json={"webhookIds": [one], "tenant": {}})
    assert (await tenants_of(api, one), await tenants_of(api, other)) == ([made["id"]], [])
    await api.put(path, json=body)
    assert await tenants_of(api, one) == [made["id"]], "absent means unchanged"
    await api.put(path, json={**body, "webhookIds": []})
    assert await tenants_of(api, one) == []
    for bad in ([new_id()], ["x"], [5], [{}], [None]):
        assert codes(await api.put(path, json={**body, "webhookIds": bad})) <= {"[invalid]webhookIds"}
    assert codes(await api.put(path, json={**body, "webhookIds": one})) == {"[invalidJSON]"}
    # Whether the tenant exists comes before what is wrong with the request.
    unknown = {**body, "webhookIds": [new_id()]}
    assert (await api.put(f"/api/tenant/{new_id()}", json=unknown)).status_code == 404
    assert (await api.patch(f"/api/tenant/{new_id()}", json=unknown)).status_code == 404


async def test_new_webhook_can_be_attached_immediately(service, api, monkeypatch) -> None:
    """Another process may have created it, so that the cache does not contain it yet."""
    await internals.store(service, "webhooks").list_cached(None, "all", {})
    monkeypatch.setattr(internals.store(service, "webhooks"), "invalidate", lambda _id: None)
    monkeypatch.setattr(internals.store(service, "webhooks"), "invalidate_all", lambda: None)
    one = await hook(api)
    made = await make(api, {"webhookIds": [one]})
    found = await internals.store(service, "webhooks").find(None, one)
    assert found["tenantIds"] == [made["id"]]


@pytest.mark.requirement("core-8-webhookIds")
async def test_concurrent_webhook_changes_are_both_kept(service, api) -> None:
    """The version of the webhook moves with its tenants, even within the same millisecond."""
    services = service.services
    webhook, made = await hook(api), await make(api)
    before = await services.configuration.webhooks.get(None, webhook)
    await services.configuration.webhooks.update(
        None, {"_id": webhook}, {"$set": {"lastUpdateInstant": before["insertInstant"] * 2}}
    )
    before = await services.configuration.webhooks.get(None, webhook)
    path, body = f"/api/tenant/{made['id']}", {"tenant": {"name": made["name"]}}
    for ids in ([webhook], []):
        assert (await api.put(path, json={**body, "webhookIds": ids})).status_code == 200
        after = await services.configuration.webhooks.get(None, webhook)
        assert after["lastUpdateInstant"] > before["lastUpdateInstant"]
        with pytest.raises(Conflict):
            await services.configuration.webhooks.replace(None, before, before["lastUpdateInstant"])
        before = after


@pytest.mark.requirement("core-8-delete", "service-7", "webhooks-2-12")
async def test_deletion_removes_all_tenant_data(service, api, manager) -> None:
    made = await make(api)
    inside = {"X-FusionAuth-TenantId": made["id"]}
    application = (await api.post("/api/application", json={"application": {"name": "x"}}, headers=inside)).json()
    user = (
        await api.post("/api/user", json={"user": {"username": "u", "password": "password"}}, headers=inside)
    ).json()
    key = (await manager.post("/api/api-key", json={"apiKey": {"tenantId": made["id"]}})).json()["apiKey"]
    webhook = await hook(api, tenantIds=[made["id"], DEFAULT_TENANT])
    assert (await api.delete(f"/api/tenant/{made['id']}")).status_code == 200
    for path in (
        f"/api/tenant/{made['id']}",
        f"/api/application/{application['application']['id']}",
        f"/api/user/{user['user']['id']}",
    ):
        assert (await api.get(path)).status_code == 404
    assert (await manager.get(f"/api/api-key/{key['id']}")).status_code == 404
    async with checking_client(service.base_url, headers={"Authorization": key["key"]}) as client:
        assert (await client.get("/api/tenant")).status_code == 401
    assert await tenants_of(api, webhook) == [DEFAULT_TENANT]
    assert codes(await api.get("/api/application", headers=inside)) == {"[InvalidTenantId]"}
    assert (await api.delete(f"/api/tenant/{made['id']}")).status_code == 404


@pytest.mark.requirement("core-8-delete-async")
@pytest.mark.parametrize("how", [{"params": {"async": "true"}}, {"json": {"async": True}}])
async def test_deletion_may_be_asynchronous(service, api, manager, how) -> None:
    made = await make(api)
    key = (await manager.post("/api/api-key", json={"apiKey": {"tenantId": made["id"]}})).json()["apiKey"]
    assert (await api.request("DELETE", f"/api/tenant/{made['id']}", **how)).status_code == 202
    # Whatever the deletion has come to, the tenant is of no use from here on.
    assert codes(await api.get("/api/application", headers={"X-FusionAuth-TenantId": made["id"]})) == {
        "[InvalidTenantId]"
    }
    async with checking_client(service.base_url, headers={"Authorization": key["key"]}) as client:
        assert (await client.get("/api/application")).status_code == 401
    await internals.run(service, tenants.finish_deletions)
    assert (await api.get(f"/api/tenant/{made['id']}")).status_code == 404


@pytest.mark.requirement("core-8-default-tenant", "core-8-delete-default")
async def test_default_tenant_cannot_be_deleted(api) -> None:
    assert codes(await api.delete(f"/api/tenant/{DEFAULT_TENANT}")) == {"[inUse]tenantId"}
    assert (await api.get(f"/api/tenant/{DEFAULT_TENANT}")).json()["tenant"]["name"] == "Default"


@pytest.mark.requirement("core-8-scoped-keys")
async def test_tenant_key_reads_and_updates_only_its_tenant(service, api, manager, tenant) -> None:
    key = (await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})).json()["apiKey"]["key"]
    async with checking_client(service.base_url, headers={"Authorization": key}) as scoped:
        assert [one["id"] for one in (await scoped.get("/api/tenant")).json()["tenants"]] == [tenant["id"]]
        path = f"/api/tenant/{tenant['id']}"
        assert (await scoped.patch(path, json={"tenant": {"data": {"a": 1}}})).status_code == 200
        assert (await scoped.post("/api/tenant", json={"tenant": {"name": new_id()}})).status_code == 401
        assert (await scoped.get("/api/tenant/search")).status_code == 401
        for method in ("GET", "PUT", "PATCH", "DELETE"):
            answer = await scoped.request(method, f"/api/tenant/{DEFAULT_TENANT}", json={"tenant": {"name": "x"}})
            assert answer.status_code == 404


@pytest.mark.requirement("core-8-search")
async def test_search_requires_global_key_without_tenant(service, api, plain) -> None:
    assert (await api.get("/api/tenant/search")).status_code == 401, "the client names the default tenant"
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client:
        by_query = (await client.get("/api/tenant/search", params={"name": plain["name"].upper()})).json()
        by_body = (await client.post("/api/tenant/search", json={"search": {"name": plain["name"]}})).json()
        assert by_query == by_body
        assert by_query["total"] == 1
        assert [one["id"] for one in by_query["tenants"]] == [plain["id"]]
        for order in ("id", "insertInstant DESC", "name ASC, id"):
            assert (await client.get("/api/tenant/search", params={"orderBy": order})).status_code == 200
        assert codes(await client.get("/api/tenant/search", params={"orderBy": "issuer"})) == {"[invalid]orderBy"}
        names = [one["name"] for one in (await client.get("/api/tenant/search")).json()["tenants"]]
        assert names == sorted(names)


@pytest.mark.requirement("core-8-password-rules")
async def test_password_rules_are_public(http, api) -> None:
    made = await make(api, passwordValidationRules={"minLength": 12, "requireNumber": True})
    answer = await http.get(f"/api/tenant/password-validation-rules/{made['id']}")
    assert answer.json() == {"passwordValidationRules": made["passwordValidationRules"]}
    by_header = await http.get("/api/tenant/password-validation-rules", headers={"X-FusionAuth-TenantId": made["id"]})
    assert by_header.json() == answer.json()
    assert codes(await http.get("/api/tenant/password-validation-rules")) == {"[TenantIdRequired]"}
    assert (await http.get(f"/api/tenant/password-validation-rules/{new_id()}")).status_code == 404


@pytest.mark.requirement("core-8-members")
async def test_of_concurrent_creates_with_one_name_one_succeeds(api) -> None:
    body = {"tenant": {"name": f"Tenant {new_id()}"}}
    answers = await asyncio.gather(*(api.post("/api/tenant", json=body) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7
