"""What a fuzzer begins with: one object of each kind, one of each id that is open, and values of good requests."""

from __future__ import annotations

from typing import Any

import httpx

from identity.ids import new_id
from identity.instants import SystemClock
from tests import two_factor
from tests.conftest import DEFAULT_TENANT
from tests.fuzz.known_values import KnownValues
from tests.receiver import until

PASSWORD = "a password of the fuzzer"
REDIRECT = "https://fuzz.example.com/callback"

VALUES: dict[str, list[Any]] = {
    "action": ["Allow", "Block"],
    "algorithm": ["ES256", "RS256", "HS256"],
    "body": ["function populate(jwt, user, registration) { jwt.fuzzed = true; }"],
    "email": [f"fuzz{number}@example.com" for number in range(30)],
    "grant_type": ["authorization_code", "client_credentials", "password", "refresh_token"],
    "length": [2048, 256],
    "password": [PASSWORD],
    "redirect_uri": [REDIRECT],
    "response_type": ["code"],
    "scope": ["openid offline_access", "openid profile email"],
    "startIPAddress": ["10.0.0.1", "*", "fe80::1"],
    "url": ["http://127.0.0.1:9099/hook"],
    "username": [f"fuzz{number}" for number in range(30)],
}

_APPLICATION = {
    "name": "fuzz",
    "roles": [{"name": "fuzz"}],
    "scopes": [{"name": "fuzz"}],
    "oauthConfiguration": {
        "authorizedRedirectURLs": [REDIRECT],
        "deviceVerificationURL": "https://fuzz.example.com/activate",
        "enabledGrants": [
            "authorization_code",
            "password",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
        ],
        "generateRefreshTokens": True,
    },
    "jwtConfiguration": {"enabled": True},
    "loginConfiguration": {"allowTokenRefresh": True, "generateRefreshTokens": True},
    "passwordlessConfiguration": {"enabled": True},
}

_EVENTS = ("user.action", "user.create", "user.login.success", "user.update")

_TIMEOUTS = {"connectTimeout": 50, "readTimeout": 50}

_OBJECTS: list[tuple[str, dict[str, Any]]] = [
    ("/api/webhook", {"webhook": {**_TIMEOUTS, "url": "http://127.0.0.1:9099/hook", "global": True,
                                 "eventsEnabled": dict.fromkeys(_EVENTS, True)}}),
    ("/api/key/generate", {"key": {"name": "fuzz", "algorithm": "ES256"}}),
    ("/api/ip-acl", {"ipAccessControlList": {"name": "fuzz", "entries": [{"startIPAddress": "*", "action": "Allow"}]}}),
    ("/api/group", {"group": {"name": "fuzz"}}),
    ("/api/consent", {"consent": {"name": "fuzz", "defaultMinimumAgeForSelfConsent": 13}}),
    ("/api/lambda", {"lambda": {"name": "fuzz", "type": "JWTPopulate", "body": VALUES["body"][0]}}),
    ("/api/user-action", {"userAction": {"name": "fuzz", "temporal": True}}),
    ("/api/user-action-reason", {"userActionReason": {"text": "fuzz", "code": "fuzz"}}),
    ("/api/email/template", {"emailTemplate": {"name": "fuzz", "defaultSubject": "s", "defaultTextTemplate": "t",
                                                "defaultHtmlTemplate": "<p>t</p>"}}),
    ("/api/entity/type", {"entityType": {"name": "fuzz", "permissions": [{"name": "fuzz"}]}}),
    ("/api/theme", {"theme": {"name": "fuzz"}}),
    ("/api/message/template", {"messageTemplate": {"name": "fuzz", "type": "SMS", "defaultTemplate": "${code}"}}),
    ("/api/messenger", {"messenger": {"name": "fuzz", **_TIMEOUTS, "type": "Generic", "url": "http://127.0.0.1:9099/"}}),
]  # fmt: skip


async def plant(api: httpx.AsyncClient, manager: httpx.AsyncClient, known: KnownValues) -> None:
    """Create the objects, and register them with the fuzzer."""
    for name, values in VALUES.items():
        known.add(name, *values)
    made = await _made(api, "/api/application", {"application": _APPLICATION})
    known.remember(made)
    oauth = made["application"]["oauthConfiguration"]
    known.add("client_id", oauth["clientId"])
    known.add("client_secret", oauth["clientSecret"])
    for path, wanted in _OBJECTS:
        known.remember(await _made(api, path, wanted))
    await _configure_tenant(api, known.first()["emailTemplateId"], known.first()["messengerId"])
    verifying = {"verifyRegistration": True, "verificationEmailTemplateId": known.first()["emailTemplateId"]}
    await _made(api, f"/api/application/{made['application']['id']}", {"application": verifying}, "PATCH")
    user = {"username": "fuzz", "email": "fuzz@example.com", "password": PASSWORD, "birthDate": "1980-01-01"}
    registration = {"applicationId": made["application"]["id"], "roles": ["fuzz"]}
    registered = await _made(api, "/api/user/registration", {"user": user, "registration": registration})
    known.remember(registered)
    # The latest are dropped for later ones, the first stay: what stands on the user has to be known before the run.
    await _plant_dependents(api, known, made["application"]["id"])
    await _plant_about_users(api, known)
    await _plant_open_ids(api, known)
    known.remember((await manager.post("/api/api-key", json={"apiKey": {"name": "fuzz"}})).json())
    form = {"grant_type": "password", "username": "fuzz", "password": PASSWORD, "scope": "openid offline_access"}
    credentials = httpx.BasicAuth(oauth["clientId"], oauth["clientSecret"])
    tokens = (await api.post("/oauth2/token", data=form, auth=credentials)).json()
    known.remember(tokens)
    known.add("token", tokens["access_token"], tokens["refresh_token"])
    device = (await api.post("/oauth2/device_authorize", data={"scope": "openid"}, auth=credentials)).json()
    known.add("device_code", device["device_code"])
    known.add("user_code", device["user_code"])
    await _learn_logs(api, known)


async def _made(api: httpx.AsyncClient, path: str, wanted: dict[str, Any], method: str = "POST") -> dict[str, Any]:
    answer = await api.request(method, path, json=wanted)
    assert answer.status_code == 200, (path, answer.text)
    return dict(answer.json()) if answer.content else {}


async def _configure_tenant(api: httpx.AsyncClient, template_id: str, messenger_id: str) -> None:
    """Enable verification, mails and events of the tenant; its mail server is unreachable."""
    mails = {"host": "127.0.0.1", "port": 9098, "verifyEmail": True, "verificationEmailTemplateId": template_id}
    mails |= {"forgotPasswordEmailTemplateId": template_id, "passwordlessEmailTemplateId": template_id}
    tenant = {
        "emailConfiguration": mails,
        "eventConfiguration": {
            "events": {name: {"enabled": True, "transactionType": "None"} for name in _EVENTS},
        },
        "familyConfiguration": {"enabled": True},
        "multiFactorConfiguration": {
            "authenticator": {"enabled": True},
            "email": {"enabled": True, "templateId": template_id},
        },
        "phoneConfiguration": {"verifyPhoneNumber": True, "messengerId": messenger_id},
    }
    await _made(api, f"/api/tenant/{DEFAULT_TENANT}", {"tenant": tenant}, "PATCH")


async def _plant_about_users(api: httpx.AsyncClient, known: KnownValues) -> None:
    """What users did, were given, said and belong to."""
    first = known.first()
    user_id = first["userId"]
    action = {"actioneeUserId": user_id, "actionerUserId": user_id, "userActionId": first["userActionId"]}
    consent = {"consentId": first["consentId"], "userId": user_id, "giverUserId": user_id}
    objects: list[tuple[str, dict[str, Any]]] = [
        ("/api/user/action", {"action": {**action, "expiry": 2**43}}),
        ("/api/user/comment", {"userComment": {"userId": user_id, "commenterId": user_id, "comment": "fuzz"}}),
        ("/api/user/consent", {"userConsent": {**consent, "status": "Active"}}),
        ("/api/user/family", {"familyMember": {"userId": user_id}}),
    ]
    for path, wanted in objects:
        known.remember(await _made(api, path, wanted))
    known.add("actioneeUserId", user_id)
    known.add("actionerUserId", user_id)
    known.add("commenterId", user_id)
    known.add("giverUserId", user_id)


async def _plant_open_ids(api: httpx.AsyncClient, known: KnownValues) -> None:
    """One unused id of each kind, of a separate user where using it would revoke others."""
    first = known.first()
    forgot = {"loginId": "fuzz@example.com", "sendForgotPasswordEmail": False}
    known.remember(await _made(api, "/api/user/forgot-password", forgot))
    started = await _made(
        api, "/api/passwordless/start", {"applicationId": first["applicationId"], "loginId": "fuzz@example.com"}
    )
    known.add("code", started["code"])
    query = {"email": "fuzz@example.com", "applicationId": first["applicationId"]}
    for subject in ("email", "registration"):
        answer = await api.put(f"/api/user/verify-{subject}", params=query)
        assert answer.status_code == 200, answer.text
        known.remember(answer.json())
    person = {"username": "fuzz-two-factor", "email": "fuzz-two-factor@example.com", "password": PASSWORD}
    person_id = (await _made(api, "/api/user", {"user": person}))["user"]["id"]
    method = two_factor.authenticator(code=two_factor.code(SystemClock().now()))
    await _made(api, f"/api/user/two-factor/{person_id}", method)
    known.remember(await _made(api, "/api/two-factor/start", {"userId": person_id, "state": {}}))
    known.add("secret", two_factor.SECRET)
    login = {"loginId": "fuzz", "password": PASSWORD, "applicationId": first["applicationId"]}
    tokens = await _made(api, "/api/login", login)
    known.remember(tokens)
    known.add("tokenId", tokens["refreshTokenId"])
    known.add("pendingIdPLinkId", new_id())


async def _learn_logs(api: httpx.AsyncClient, known: KnownValues) -> None:
    """The numbers of log rows, and the events and attempts of the webhook."""
    known.add("auditLogId", "1")
    known.add("eventLogId", "1")
    events: list[dict[str, Any]] = []

    async def is_attempted() -> bool:
        found = await api.get("/api/system/webhook-event-log/search")
        for event in found.json()["webhookEventLogs"]:
            answer = (await api.get(f"/api/system/webhook-event-log/{event['id']}")).json()["webhookEventLog"]
            if answer.get("attempts"):
                events.append(answer)
        return bool(events)

    await until(is_attempted)
    known.add("webhookEventLogId", events[0]["id"])
    known.add("webhookAttemptLogId", events[0]["attempts"][0]["id"])


async def _plant_dependents(api: httpx.AsyncClient, known: KnownValues, application_id: str) -> None:
    """Objects that stand on others."""
    first = known.first()
    provider = {
        "type": "OpenIDConnect",
        "name": "fuzz",
        "buttonText": "Fuzz",
        "oauth2": {
            "client_id": "fuzz",
            "client_secret": "fuzz",
            "authorization_endpoint": "http://127.0.0.1:9099/authorize",
            "token_endpoint": "http://127.0.0.1:9099/token",
            "userinfo_endpoint": "http://127.0.0.1:9099/userinfo",
        },
        "applicationConfiguration": {application_id: {"enabled": True}},
    }
    objects: list[tuple[str, dict[str, Any]]] = [
        ("/api/entity", {"entity": {"name": "fuzz", "type": {"id": first["entityTypeId"]}}}),
        ("/api/identity-provider", {"identityProvider": provider}),
        ("/api/system/audit-log", {"auditLog": {"insertUser": "fuzz", "message": "fuzz"}}),
    ]
    for path, wanted in objects:
        known.remember(await _made(api, path, wanted))
    members = await _made(api, "/api/group/member", {"members": {first["groupId"]: [{"userId": first["userId"]}]}})
    known.add("memberId", members["members"][first["groupId"]][0]["id"])
