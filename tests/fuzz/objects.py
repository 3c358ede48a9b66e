"""What a fuzzer begins with: one object of each kind, and values that make up good requests."""

from __future__ import annotations

from typing import Any

import httpx

from tests.fuzz.fuzzing import Fuzzer

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
        "enabledGrants": ["authorization_code", "password", "refresh_token"],
        "generateRefreshTokens": True,
    },
    "jwtConfiguration": {"enabled": True},
}

_TIMEOUTS = {"connectTimeout": 50, "readTimeout": 50}

_OBJECTS: list[tuple[str, dict[str, Any]]] = [
    ("/api/webhook", {"webhook": {**_TIMEOUTS, "url": "http://127.0.0.1:9099/hook", "global": True}}),
    ("/api/key/generate", {"key": {"name": "fuzz", "algorithm": "ES256"}}),
    ("/api/ip-acl", {"ipAccessControlList": {"name": "fuzz", "entries": [{"startIPAddress": "*", "action": "Allow"}]}}),
    ("/api/group", {"group": {"name": "fuzz"}}),
    ("/api/consent", {"consent": {"name": "fuzz", "defaultMinimumAgeForSelfConsent": 13}}),
    ("/api/lambda", {"lambda": {"name": "fuzz", "type": "JWTPopulate", "body": VALUES["body"][0]}}),
    ("/api/user-action", {"userAction": {"name": "fuzz"}}),
    ("/api/user-action-reason", {"userActionReason": {"text": "fuzz", "code": "fuzz"}}),
    ("/api/email/template", {"emailTemplate": {"name": "fuzz", "defaultSubject": "s", "defaultTextTemplate": "t",
                                                "defaultHtmlTemplate": "<p>t</p>"}}),
    ("/api/entity/type", {"entityType": {"name": "fuzz", "permissions": [{"name": "fuzz"}]}}),
    ("/api/theme", {"theme": {"name": "fuzz"}}),
]  # fmt: skip


async def plant(api: httpx.AsyncClient, manager: httpx.AsyncClient, fuzzer: Fuzzer) -> None:
    """Make the objects, and tell the fuzzer of them."""
    for name, values in VALUES.items():
        fuzzer.know(name, *values)
    made = (await api.post("/api/application", json={"application": _APPLICATION})).json()
    fuzzer.remember(made)
    oauth = made["application"]["oauthConfiguration"]
    fuzzer.know("client_id", oauth["clientId"])
    fuzzer.know("client_secret", oauth["clientSecret"])
    user = {"username": "fuzz", "email": "fuzz@example.com", "password": PASSWORD}
    registration = {"applicationId": made["application"]["id"], "roles": ["fuzz"]}
    body = {"user": user, "registration": registration}
    fuzzer.remember((await api.post("/api/user/registration", json=body)).json())
    for path, wanted in _OBJECTS:
        answer = await api.post(path, json=wanted)
        assert answer.status_code == 200, (path, answer.text)
        fuzzer.remember(answer.json())
    await _plant_dependents(api, fuzzer, made["application"]["id"])
    fuzzer.remember((await manager.post("/api/api-key", json={"apiKey": {"name": "fuzz"}})).json())
    form = {"grant_type": "password", "username": "fuzz", "password": PASSWORD, "scope": "openid offline_access"}
    credentials = httpx.BasicAuth(oauth["clientId"], oauth["clientSecret"])
    tokens = (await api.post("/oauth2/token", data=form, auth=credentials)).json()
    fuzzer.remember(tokens)
    fuzzer.know("token", tokens["access_token"], tokens["refresh_token"])


async def _plant_dependents(api: httpx.AsyncClient, fuzzer: Fuzzer, application_id: str) -> None:
    """Objects that stand on others."""
    known = fuzzer.known()
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
        ("/api/entity", {"entity": {"name": "fuzz", "type": {"id": known["entityTypeId"]}}}),
        ("/api/group/member", {"members": {known["groupId"]: [{"userId": known["userId"]}]}}),
        ("/api/identity-provider", {"identityProvider": provider}),
        ("/api/system/audit-log", {"auditLog": {"insertUser": "fuzz", "message": "fuzz"}}),
    ]
    for path, wanted in objects:
        answer = await api.post(path, json=wanted)
        assert answer.status_code == 200, (path, answer.text)
        fuzzer.remember(answer.json())
