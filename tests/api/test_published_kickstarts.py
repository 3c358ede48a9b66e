"""Kickstart files in the published style run unmodified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.api.test_kickstart import KEY, client, data_dir_with, one_application
from tests.conftest import Build, checking_client

TENANT = "d7d09513-a3f5-401c-9685-34ab6c552453"
ADMIN = "00000000-0000-0000-0000-000000000001"
TEMPLATE = "0502df1e-4010-4b43-b571-d423fce978b2"

VERIFY_HTML = """[#ftl output_format="HTML"/]
[#setting url_escaping_charset="UTF-8"]
[#if user.verified]Already done.[/#if]
[#assign url = "http://localhost:9011/email/verify/${verificationId}?client_id=${(application.oauthConfiguration.clientId)!''}&tenantId=${user.tenantId}" /]
[#list state!{} as key, value][#if key != "tenantId" && value??][#assign url = url + "&" + key?url + "=" + value?url/][/#if][/#list]
<a href="${url?html}">#{applicationName}</a>
"""  # noqa: E501 (as such files are)
POPULATE = """function populate(jwt, user, registration) {
  jwt.fullName = user.fullName;
  jwt.text = "a \\"quoted\\" word";
}
"""

KICKSTART: dict[str, Any] = {
    "variables": {
        "allowedOrigin": "http://localhost:5173",
        "authorizedRedirectURL": "http://localhost:5173",
        "authorizedPostLogoutURL": "http://localhost:5173/logout",
        "applicationId": "e9fdb985-9173-4e01-9d73-ac2d60d1dc8e",
        "applicationName": "Changebank",
        "apiKey": KEY,
        "asymmetricKeyId": "#{UUID()}",
        "lambdaId": "#{UUID()}",
        "familyId": "#{UUID()}",
        "childId": "#{UUID()}",
        "defaultTenantId": TENANT,
        "adminEmail": "admin@example.com",
        "adminPassword": "password",
        "adminUserId": ADMIN,
        "userEmail": "richard@example.com",
        "userUserId": "00000000-0000-0000-0000-111111111111",
        "retries": 3,
        "enabled": True,
    },
    "license": "",
    "settings": {"connectTimeout": "5000", "readTimeout": 60000},
    "apiKeys": [
        {"key": "#{apiKey}", "description": "Unrestricted API key"},
        {"key": "manager-key-of-an-example-0123456789", "name": "Manager", "keyManager": "true"},
    ],
    "requests": [
        {
            "method": "POST",
            "url": "api/key/generate/#{asymmetricKeyId}",
            "tenantId": "#{defaultTenantId}",
            "body": {"key": {"algorithm": "RS256", "name": "For exampleapp", "length": "2048"}},
        },
        {"method": "POST", "url": "/api/lambda/#{lambdaId}", "body": "&{lambda.json}"},
        {
            "method": "POST",
            "url": f"/api/email/template/{TEMPLATE}",
            "body": {
                "emailTemplate": {
                    "name": "Email Verification",
                    "fromEmail": "noreply@example.com",
                    "defaultFromName": "No Reply",
                    "defaultSubject": "Verify ${user.email}",
                    "defaultHtmlTemplate": "@{emails/verify.html.ftl}",
                    "defaultTextTemplate": "@{emails/verify.txt.ftl}",
                }
            },
        },
        {
            "method": "PATCH",
            "url": "/api/tenant/#{defaultTenantId}",
            "body": {
                "tenant": {
                    "issuer": "http://localhost:9011",
                    "emailConfiguration": {"verifyEmail": "true", "verificationEmailTemplateId": TEMPLATE},
                    "passwordEncryptionConfiguration": {
                        "encryptionScheme": "salted-pbkdf2-hmac-sha256",
                        "encryptionSchemeFactor": 0,
                    },
                    "maximumPasswordAge": {"enabled": "false", "days": "180"},
                }
            },
        },
        {
            "method": "PATCH",
            "url": "api/tenant/#{defaultTenantId}",
            "contentType": "application/json-patch+json",
            "body": [{"op": "add", "path": "/tenant/data/origin", "value": "#{allowedOrigin}"}],
        },
        {
            "method": "PATCH",
            "url": "/api/system-configuration",
            "body": {
                "systemConfiguration": {
                    "corsConfiguration": {
                        "allowCredentials": True,
                        "allowedMethods": ["GET", "POST", "OPTIONS"],
                        "allowedOrigins": ["#{allowedOrigin}"],
                        "enabled": "#{enabled}",
                        "preflightMaxAgeInSeconds": "0",
                    }
                }
            },
        },
        {
            "method": "POST",
            "url": "/api/application/#{applicationId}",
            "tenantId": "#{defaultTenantId}",
            "body": {
                "application": {
                    "name": "#{applicationName}",
                    "oauthConfiguration": {
                        "authorizedRedirectURLs": ["#{authorizedRedirectURL}"],
                        "authorizedOriginURLs": ["#{allowedOrigin}"],
                        "clientSecret": 1234567890,
                        "logoutURL": "#{authorizedPostLogoutURL}",
                        "enabledGrants": ["authorization_code", "refresh_token"],
                        "debug": "true",
                        "generateRefreshTokens": True,
                        "requireRegistration": "true",
                    },
                    "jwtConfiguration": {
                        "enabled": "true",
                        "accessTokenKeyId": "#{asymmetricKeyId}",
                        "idTokenKeyId": "#{asymmetricKeyId}",
                        "timeToLiveInSeconds": 0,
                        "refreshTokenTimeToLiveInMinutes": "43200",
                    },
                    "lambdaConfiguration": {"accessTokenPopulateId": "#{lambdaId}"},
                    "roles": ["admin", {"name": "user", "isDefault": "true"}],
                    "registrationConfiguration": {"enabled": "true"},
                    "data": {"retries": "#{retries}"},
                }
            },
        },
        {
            "method": "POST",
            "url": "/api/user/registration/#{adminUserId}",
            "body": {
                "registration": {"applicationId": "#{FUSIONAUTH_APPLICATION_ID}", "roles": ["admin"]},
                "skipRegistrationVerification": True,
                "user": {"email": "#{adminEmail}", "firstName": "Erlich", "password": "#{adminPassword}", "data": {}},
            },
        },
        {
            "method": "POST",
            "url": "/api/user/registration/#{userUserId}",
            "body": {
                "user": {
                    "birthDate": "1985-11-23",
                    "email": "#{userEmail}",
                    "firstName": "Fred",
                    "lastName": "Flintstone",
                    "password": "#{adminPassword}",
                    "skipVerification": True,
                },
                "skipVerification": "true",
                "registration": {"applicationId": "#{applicationId}", "roles": "admin", "data": {"color": "teal"}},
            },
        },
        {
            "method": "POST",
            "url": "api/user/registration/#{adminUserId}/#{applicationId}",
            "body": {"user": {}, "registration": {"roles": ["user"]}},
        },
        {
            "method": "POST",
            "url": "/api/user/#{childId}",
            "body": {"user": {"username": "pebbles", "password": "#{adminPassword}", "birthDate": "2022-01-01"}},
        },
        {
            "method": "POST",
            "url": "/api/user/family/#{familyId}",
            "body": {"familyMember": {"userId": "#{userUserId}", "owner": "true", "role": "Adult"}},
        },
        {
            "method": "PUT",
            "url": "/api/user/family/#{familyId}",
            "body": {"familyMember": {"userId": "#{childId}", "role": "Child"}},
        },
        {
            "method": "POST",
            "url": "/api/webhook",
            "body": {
                "webhook": {
                    "url": "https://hooks.example.com/",
                    "connectTimeout": "1000",
                    "readTimeout": "2000",
                    "global": "true",
                    "eventsEnabled": {"user.login.success": "true"},
                    "headers": {"X-Retries": 3},
                }
            },
        },
        {
            "method": "POST",
            "url": "/api/theme",
            "body": {
                "sourceThemeId": "75a068fd-e94b-451a-9aeb-3ddb9a3b5987",
                "theme": {"name": "Changebank theme", "templates": {"helpers": "@{emails/verify.txt.ftl}"}},
            },
        },
        {"method": "POST", "url": "/api/group", "body": {"group": {"name": "Moderators", "unknownMember": True}}},
    ],
}  # fmt: skip


def folder(tmp_path: Path) -> Path:
    """The files next to the kickstart."""
    data_dir = data_dir_with(tmp_path / "one", lambda__json=json.dumps(
        {"lambda": {"name": "Populate", "type": "JWTPopulate", "body": "@{populate.js}", "debug": "true"}}
    ), populate__js=POPULATE)  # fmt: skip
    emails = data_dir / "config" / "emails"
    emails.mkdir()
    (emails / "verify.html.ftl").write_text(VERIFY_HTML)
    (emails / "verify.txt.ftl").write_text("Verify: http://localhost:9011/email/verify/${verificationId}\n")
    return data_dir


@pytest.mark.requirement("audit-b5-kickstart")
async def test_published_kickstart_files_run(build: Build, tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as logs:
        async with build(data_dir=folder(tmp_path), kickstart=json.dumps(KICKSTART)) as service:
            application = await one_application(service, "Changebank")
            async with client(service) as api:
                users = {}
                for user_id in (ADMIN, "00000000-0000-0000-0000-111111111111"):
                    users[user_id] = (await api.get(f"/api/user/{user_id}")).json()["user"]
                template = (await api.get(f"/api/email/template/{TEMPLATE}")).json()["emailTemplate"]
                preview = await api.post("/api/email/template/preview", json={"emailTemplate": template})
                families = await api.get("/api/user/family", params={"userId": "00000000-0000-0000-0000-111111111111"})
                tenant = (await api.get(f"/api/tenant/{TENANT}")).json()["tenant"]
            headers = {"Authorization": "manager-key-of-an-example-0123456789"}
            async with checking_client(service.base_url, headers=headers) as manager:
                made = await manager.post("/api/api-key", json={"apiKey": {"name": "made by the manager"}})
    assert made.status_code == 200
    assert application["oauthConfiguration"]["clientSecret"] == "1234567890"
    assert application["jwtConfiguration"]["timeToLiveInSeconds"] == 3600
    assert [role["name"] for role in application["roles"]] == ["admin", "user"]
    assert {one["applicationId"] for one in users[ADMIN]["registrations"]} >= {application["id"]}
    assert "errors" not in preview.json()
    assert "Changebank</a>" in preview.json()["email"]["html"]
    assert len(families.json()["families"][0]["members"]) == 2
    assert tenant["data"] == {"origin": "http://localhost:5173"}
    assert tenant["passwordEncryptionConfiguration"]["encryptionSchemeFactor"] == 24_000
    ignored = {one["request"]: one["members"] for one in logs if one["event"] == "kickstart: ignored members"}
    assert ignored["POST /api/group"] == "group.unknownMember"
