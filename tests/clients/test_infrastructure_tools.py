"""Infrastructure tools, such as Terraform, compare what they read with what they wrote and plan each difference.

The requests have the members of the resources that the documentation of Terraform's provider describes: created, read,
written again without a change, and read again.
"""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from tests import plain_http
from tests.clients.journeys.configuration import ISSUER, differences
from tests.conftest import MANAGER_KEY, SUPER_KEY, Build

Document = dict[str, Any]


class Tool:
    """A tool that applies resources and collects the changes of its second plan."""

    def __init__(self, http: Any) -> None:
        self._http = http
        self.plan: list[str] = []

    async def apply(self, path: str, member: str, wanted: Document, *, key: str = SUPER_KEY, **beside: Any) -> Document:
        """Create a resource, plan, write it again, and plan once more; return what is read."""
        tenant = {"X-FusionAuth-TenantId": wanted["tenantId"]} if "tenantId" in wanted else {}
        headers = {"Authorization": key, **tenant}
        body = {member: wanted, **beside}
        made = await self._http.post(path, json=body, headers=headers)
        assert made.status_code == 200, (path, made.text)
        url = f"{path}/{made.json()[member]['id']}"
        await self._compare(url, member, wanted, headers)
        again = await self._http.put(url, json=body, headers=headers)
        assert again.status_code == 200, (path, again.text)
        return await self._compare(url, member, wanted, headers)

    async def generate_key(self) -> str:
        """Generate a signing key and return its id."""
        key = {"name": f"Key {new_id()}", "algorithm": "RS256", "length": 2048}
        made = await self._http.post("/api/key/generate", json={"key": key}, headers={"Authorization": SUPER_KEY})
        return str(made.json()["key"]["id"])

    async def _compare(self, url: str, member: str, wanted: Document, headers: Document) -> Document:
        read = dict((await self._http.get(url, headers=headers)).json()[member])
        self.plan += [f"{member}.{path}" for path in differences(wanted, read)]
        return read


def events() -> Document:
    names = (
        "user.delete", "user.create", "user.update", "user.deactivate", "user.bulk.create", "user.reactivate",
        "jwt.refresh-token.revoke", "jwt.refresh", "jwt.public-key.update", "user.login.success", "user.login.failed",
        "user.registration.create", "user.registration.update", "user.registration.delete",
        "user.registration.verified", "user.email.verified",
    )  # fmt: skip
    found: Document = {name: {"enabled": True, "transactionType": "None"} for name in names}
    return {"events": {**found, "user.password.breach": {"enabled": False, "transactionType": "None"}}}


def generators() -> Document:
    long = {"length": 32, "type": "randomBytes"}
    return {
        "authorizationGrantIdTimeToLiveInSeconds": 30,
        "changePasswordIdGenerator": long,
        "changePasswordIdTimeToLiveInSeconds": 600,
        "deviceCodeTimeToLiveInSeconds": 1800,
        "deviceUserCodeIdGenerator": {"length": 6, "type": "randomAlphaNumeric"},
        "emailVerificationIdGenerator": long,
        "emailVerificationIdTimeToLiveInSeconds": 86400,
        "externalAuthenticationIdTimeToLiveInSeconds": 300,
        "oneTimePasswordTimeToLiveInSeconds": 60,
        "passwordlessLoginGenerator": long,
        "passwordlessLoginTimeToLiveInSeconds": 600,
        "registrationVerificationIdGenerator": long,
        "registrationVerificationIdTimeToLiveInSeconds": 86400,
        "samlv2AuthNRequestIdTimeToLiveInSeconds": 300,
        "setupPasswordIdGenerator": long,
        "setupPasswordIdTimeToLiveInSeconds": 86400,
        "twoFactorIdTimeToLiveInSeconds": 300,
        "twoFactorTrustIdTimeToLiveInSeconds": 2592000,
    }


def tenant(template_id: str, key_ids: list[str], theme_id: str) -> Document:
    templates = ("forgotPassword", "passwordless", "setPassword", "verification")
    return {
        "name": f"Example {new_id()}", "issuer": ISSUER, "themeId": theme_id, "httpSessionMaxInactiveInterval": 3600,
        "data": {"managedBy": "terraform"},
        "emailConfiguration": {
            "host": "smtp.example.com", "port": 587, "security": "TLS", "username": "username", "password": "password",
            "verifyEmail": True, "verifyEmailWhenChanged": True, "defaultFromEmail": "no-reply@example.com",
            **{f"{name}EmailTemplateId": template_id for name in templates},
        },
        "captchaConfiguration": {
            "enabled": True, "captchaMethod": "GoogleRecaptchaV3", "siteKey": "site", "secretKey": "secret",
            "threshold": 0.5,
        },
        "eventConfiguration": events(),
        "externalIdentifierConfiguration": generators(),
        "failedAuthenticationConfiguration": {
            "actionDuration": 3, "actionDurationUnit": "MINUTES", "resetCountInSeconds": 60, "tooManyAttempts": 5,
        },
        "familyConfiguration": {
            "enabled": True, "allowChildRegistrations": True, "deleteOrphanedAccounts": False,
            "deleteOrphanedAccountsDays": 30,
            "maximumChildAge": 12, "minimumOwnerAge": 21, "parentEmailRequired": False,
        },
        "jwtConfiguration": {
            "accessTokenKeyId": key_ids[0], "idTokenKeyId": key_ids[1], "refreshTokenTimeToLiveInMinutes": 43200,
            "timeToLiveInSeconds": 3600,
        },
        "maximumPasswordAge": {"days": 180, "enabled": False},
        "minimumPasswordAge": {"seconds": 30, "enabled": False},
        "passwordEncryptionConfiguration": {
            "encryptionScheme": "salted-pbkdf2-hmac-sha256", "encryptionSchemeFactor": 24000,
            "modifyEncryptionSchemeOnLogin": False,
        },
        "passwordValidationRules": {
            "maxLength": 256, "minLength": 7, "rememberPreviousPasswords": {"count": 1, "enabled": False},
            "requireMixedCase": False, "requireNonAlpha": False, "requireNumber": False, "validateOnLogin": False,
        },
        "userDeletePolicy": {"unverified": {"enabled": False, "numberOfDaysToRetain": 30}},
    }  # fmt: skip


def application(tenant_id: str, key_id: str, lambda_id: str, template_id: str) -> Document:
    off = {"enabled": False, "required": False}
    fields = ("birthDate", "firstName", "fullName", "lastName", "middleName", "mobilePhone")
    return {
        "tenantId": tenant_id, "name": f"Forum {new_id()}", "verifyRegistration": False,
        "authenticationTokenConfiguration": {"enabled": False}, "passwordlessConfiguration": {"enabled": False},
        "emailConfiguration": {"forgotPasswordEmailTemplateId": template_id},
        "jwtConfiguration": {
            "enabled": True, "accessTokenKeyId": key_id, "idTokenKeyId": key_id,
            "refreshTokenTimeToLiveInMinutes": 43200, "timeToLiveInSeconds": 3600,
        },
        "lambdaConfiguration": {"accessTokenPopulateId": lambda_id, "idTokenPopulateId": lambda_id},
        "loginConfiguration": {
            "allowTokenRefresh": False, "generateRefreshTokens": False, "requireAuthentication": True,
        },
        "oauthConfiguration": {
            "authorizedOriginURLs": ["http://www.example.com"],
            "authorizedRedirectURLs": ["http://www.example.com/oauth-callback", "http://localhost:3000/callback"],
            "clientSecret": "a client secret that the configuration has",
            "enabledGrants": ["authorization_code", "implicit"],
            "generateRefreshTokens": False, "logoutBehavior": "AllApplications",
            "logoutURL": "http://www.example.com/logout", "requireClientAuthentication": False,
        },
        "registrationConfiguration": {
            "enabled": False, "confirmPassword": False, "loginIdType": "email", "type": "basic",
            **dict.fromkeys(fields, off),
        },
        "registrationDeletePolicy": {"unverified": {"enabled": True, "numberOfDaysToRetain": 30}},
    }  # fmt: skip


SECRETS = ["tenant.emailConfiguration.password", "tenant.captchaConfiguration.secretKey"]


@pytest.mark.parametrize(("shows_secrets", "plan"), [(True, []), (False, SECRETS * 2)])
async def test_second_plan_has_the_secrets_of_tenants_unless_they_are_shown(
    build: Build, shows_secrets: bool, plan: list[str]
) -> None:
    async with (
        build(api_keys__show_tenant_secrets=shows_secrets) as service,
        plain_http.client(service.base_url) as http,
    ):
        tool = Tool(http)
        await apply_everything(tool)
        assert tool.plan == plan


async def apply_everything(tool: Tool) -> None:
    """Apply a resource of each kind."""
    key_ids = [await tool.generate_key() for _ in range(2)]
    mail = {
        "name": f"Mail {new_id()}", "defaultFromName": "Acme", "fromEmail": "no-reply@example.com",
        "defaultSubject": "Hello", "defaultHtmlTemplate": "<p>Hello</p>\n", "defaultTextTemplate": "Hello\n",
        "localizedSubjects": {"de": "Hallo"},
    }  # fmt: skip
    template = await tool.apply("/api/email/template", "emailTemplate", mail)
    theme = await tool.apply("/api/theme", "theme", {"name": f"Theme {new_id()}", "stylesheet": "h1 {\n}\n"})
    body = "// Claims\nfunction populate(jwt, user, registration) {\n  jwt.a = 1;\n}\n"
    populate = await tool.apply("/api/lambda", "lambda", {"name": "Claims", "type": "JWTPopulate", "body": body})
    owner = await tool.apply("/api/tenant", "tenant", tenant(template["id"], key_ids, theme["id"]))
    forum = application(owner["id"], key_ids[0], populate["id"], template["id"])
    made = await tool.apply("/api/application", "application", forum)
    enabled = {made["id"]: {"enabled": True, "createRegistration": True}}
    await providers(tool, enabled)
    hook = {
        "url": "https://example.com/events", "connectTimeout": 1000, "readTimeout": 2000, "global": False,
        "tenantIds": [owner["id"]], "headers": {"X-From": "terraform"}, "eventsEnabled": {"user.create": True},
        "httpAuthenticationUsername": "user", "httpAuthenticationPassword": "password",
    }  # fmt: skip
    await tool.apply("/api/webhook", "webhook", hook)
    limited = {"permissions": {"endpoints": {"/api/user": ["GET"]}}, "metaData": {"attributes": {"description": "a"}}}
    await tool.apply("/api/api-key", "apiKey", limited, key=MANAGER_KEY)
    await tool.apply("/api/consent", "consent", {"name": "News", "defaultMinimumAgeForSelfConsent": 13})
    generic = {"type": "Generic", "connectTimeout": 1000, "readTimeout": 2000, "headers": {"X-From": "terraform"}}
    account = {"httpAuthenticationUsername": "user", "httpAuthenticationPassword": "password"}
    connector = {"name": "Users", "authenticationURL": "https://users.example.com", **generic, **account}
    await tool.apply("/api/connector", "connector", connector)
    messenger = {"name": "SMS", "url": "https://sms.example.com", **generic, **account}
    await tool.apply("/api/messenger", "messenger", messenger)


async def providers(tool: Tool, enabled: Document) -> None:
    """Apply identity providers."""
    oauth2 = {
        "client_id": "client", "client_secret": "secret", "scope": "openid email", "clientAuthenticationMethod":
        "client_secret_post", "authorization_endpoint": "https://provider.example.com/authorize",
        "token_endpoint": "https://provider.example.com/token", "userinfo_endpoint": "https://provider.example.com/me",
    }  # fmt: skip
    common = {"enabled": True, "debug": False, "applicationConfiguration": enabled, "linkingStrategy": "LinkByEmail"}
    openid = {"type": "OpenIDConnect", "name": "Provider", "buttonText": "Log in", "oauth2": oauth2, **common}
    await tool.apply("/api/identity-provider", "identityProvider", openid)
    client = {"client_id": "client", "client_secret": "secret", "buttonText": "Log in", **common}
    await tool.apply("/api/identity-provider", "identityProvider", {"type": "Google", **client})
    await tool.apply("/api/identity-provider", "identityProvider", {"type": "LinkedIn", **client})
