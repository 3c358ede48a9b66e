"""Payloads as operations create them."""

from __future__ import annotations

from typing import Any

USER_ID = "3f2b1c00-0000-4000-8000-000000000001"
TENANT_ID = "3f2b1c00-0000-4000-8000-000000000002"
APPLICATION_ID = "3f2b1c00-0000-4000-8000-000000000003"


def registration(**members: Any) -> dict[str, Any]:
    return {
        "applicationId": APPLICATION_ID,
        "data": {},
        "id": "3f2b1c00-0000-4000-8000-000000000004",
        "insertInstant": 1_700_000_000_000,
        "lastUpdateInstant": 1_700_000_000_000,
        "preferredLanguages": [],
        "roles": ["user"],
        "tokens": {},
        "usernameStatus": "ACTIVE",
        "verified": True,
        **members,
    }


def user(**members: Any) -> dict[str, Any]:
    return {
        "active": True,
        "birthDate": None,
        "data": {"favourite": "Zoë", "nothing": None},
        "email": "ada@example.com",
        "id": USER_ID,
        "insertInstant": 1_700_000_000_000,
        "lastUpdateInstant": 1_700_000_000_000,
        "memberships": [],
        "passwordChangeRequired": False,
        "preferredLanguages": ["en"],
        "registrations": [],
        "tenantId": TENANT_ID,
        "twoFactor": {"methods": [], "recoveryCodes": []},
        "usernameStatus": "ACTIVE",
        "verified": True,
        **members,
    }


def entity(**members: Any) -> dict[str, Any]:
    stamps = {"insertInstant": 1_700_000_000_000, "lastUpdateInstant": 1_700_000_000_000}
    permission = {
        "data": {},
        "description": "Turn it on",
        "id": APPLICATION_ID,
        "isDefault": True,
        "name": "ON",
        **stamps,
    }
    return {
        "clientId": USER_ID,
        "data": {},
        "id": USER_ID,
        "name": "Thermostat",
        "parentId": None,
        "tenantId": TENANT_ID,
        "type": {
            "data": {},
            "id": APPLICATION_ID,
            "jwtConfiguration": {"enabled": False, "timeToLiveInSeconds": 0},
            "name": "Thermostat",
            "permissions": [{**permission, **stamps}],
            **stamps,
        },
        **stamps,
        **members,
    }


def group(**members: Any) -> dict[str, Any]:
    role = {"id": APPLICATION_ID, "isDefault": False, "isSuperRole": False, "name": "admin"}
    role |= {"insertInstant": 1_700_000_000_000, "lastUpdateInstant": 1_700_000_000_000}
    return {
        "data": {},
        "id": "3f2b1c00-0000-4000-8000-000000000005",
        "insertInstant": 1_700_000_000_000,
        "lastUpdateInstant": 1_700_000_000_000,
        "name": "Employees",
        "roles": {APPLICATION_ID: [role]},
        "tenantId": TENANT_ID,
        **members,
    }


_GROUP = {"group": group()}
_MEMBER = {
    "data": {"title": "engineer"},
    "groupId": "3f2b1c00-0000-4000-8000-000000000005",
    "id": "3f2b1c00-0000-4000-8000-000000000006",
    "insertInstant": 1_700_000_000_000,
    "userId": USER_ID,
}
_MEMBERS = {**_GROUP, "members": [_MEMBER]}
_REGISTRATION = {"user": user(), "applicationId": APPLICATION_ID, "registration": registration()}
_LOGIN = {"user": user(), "applicationId": APPLICATION_ID, "authenticationType": "PASSWORD"}

_FEDERATED = {**_LOGIN, "identityProviderId": APPLICATION_ID, "identityProviderName": "Company"}
_LINK = {
    "user": user(),
    "identityProviderLink": {
        "displayName": "ada@example.com",
        "identityProviderId": APPLICATION_ID,
        "identityProviderName": "Company",
        "identityProviderType": "OpenIDConnect",
        "identityProviderUserId": "42",
        "insertInstant": 1_700_000_000_000,
        "lastLoginInstant": 1_700_000_000_000,
        "tenantId": TENANT_ID,
        "userId": USER_ID,
    },
}

_METHOD = {"user": user(), "method": {"email": "ada@example.com", "id": "AB12", "lastUsed": False, "method": "email"}}
_DUPLICATE = {
    "user": user(),
    "duplicateEmail": "ada@example.com",
    "duplicateIdentities": [{"type": "email", "value": "ada@example.com"}],
    "existing": user(id=APPLICATION_ID),
}

PAYLOADS: dict[str, dict[str, Any]] = {
    "audit-log.create": {
        "auditLog": {
            "data": {},
            "id": 1773,
            "insertInstant": 1_629_141_543_059,
            "insertUser": "admin@example.com",
            "message": "Updated a user",
            "newValue": {"active": True, "data": {"a": [1, "b"]}},
            "oldValue": "free text",
            "reason": "Admin user interface",
            "tenantId": TENANT_ID,
        }
    },
    "event-log.create": {
        "eventLog": {"id": 1773, "insertInstant": 1_629_141_543_059, "message": "It failed.", "type": "Debug"}
    },
    "entity.create": {"entity": entity()},
    "entity.create.complete": {"entity": entity()},
    "entity.delete": {"entity": entity()},
    "entity.delete.complete": {"entity": entity()},
    "entity.update": {"entity": entity(parentId=APPLICATION_ID), "original": entity()},
    "entity.update.complete": {"entity": entity(parentId=APPLICATION_ID), "original": entity()},
    "group.create": _GROUP,
    "group.create.complete": _GROUP,
    "group.delete": _GROUP,
    "group.delete.complete": _GROUP,
    "group.member.add": _MEMBERS,
    "group.member.add.complete": _MEMBERS,
    "group.member.remove": _MEMBERS,
    "group.member.remove.complete": _MEMBERS,
    "group.member.update": _MEMBERS,
    "group.member.update.complete": _MEMBERS,
    "group.update": {**_GROUP, "original": group(name="Staff")},
    "group.update.complete": {**_GROUP, "original": group(name="Staff")},
    "jwt.public-key.update": {"applicationIds": [APPLICATION_ID]},
    "jwt.refresh": {
        "applicationId": APPLICATION_ID,
        "original": None,
        "refreshToken": "old",
        "token": "a.b.c",
        "userId": USER_ID,
    },
    "jwt.refresh-token.revoke": {
        "applicationId": APPLICATION_ID,
        "applicationTimeToLiveInSeconds": {APPLICATION_ID: 3600},
        "refreshToken": {"applicationId": APPLICATION_ID, "id": APPLICATION_ID, "startInstant": 1, "userId": USER_ID},
        "user": user(),
        "userId": USER_ID,
    },
    "kickstart.success": {"instanceId": TENANT_ID},
    "user.action": {
        "action": "Mute",
        "actionId": APPLICATION_ID,
        "actioneeUserId": USER_ID,
        "actionerUserId": USER_ID,
        "applicationIds": [APPLICATION_ID],
        "emailedUser": False,
        "expiry": 1_700_000_000_000,
        "notifyUser": True,
        "phase": "start",
    },
    "user.bulk.create": {"users": [user(), user(id=APPLICATION_ID)]},
    "user.email.verified": {"user": user()},
    "user.identity.update": {
        "user": user(),
        "loginIdType": "email",
        "newLoginId": "new@example.com",
        "previousLoginId": "a@example.com",
    },
    "user.identity.verified": {"user": user(), "loginId": "ada@example.com", "loginIdType": "email"},
    "user.login.suspicious": {**_FEDERATED, "threatsDetected": ["ImpossibleTravel"]},
    "user.loginId.duplicate.create": _DUPLICATE,
    "user.loginId.duplicate.update": _DUPLICATE,
    "user.password.breach": {"user": user()},
    "user.password.reset.send": {"user": user()},
    "user.password.reset.start": {"user": user()},
    "user.password.reset.success": {"user": user()},
    "user.password.update": {"user": user()},
    "user.registration.verified": _REGISTRATION,
    "user.two-factor.challenge": {"user": user(), "applicationId": APPLICATION_ID},
    "user.two-factor.failed-attempt": {"user": user(), "applicationId": APPLICATION_ID, "method": "authenticator"},
    "user.two-factor.method.add": _METHOD,
    "user.two-factor.method.remove": _METHOD,
    "user.two-factor.success": {"user": user(), "applicationId": APPLICATION_ID, "method": "sms", "messageType": "SMS"},
    "user.create": {"user": user()},
    "user.create.complete": {"user": user()},
    "user.deactivate": {"user": user()},
    "user.delete": {"user": user()},
    "user.delete.complete": {"user": user()},
    "user.email.update": {"user": user(), "previousEmail": "old@example.com"},
    "user.identity-provider.link": _LINK,
    "user.identity-provider.unlink": _LINK,
    "user.login.failed": {**_LOGIN, "reason": {"code": "credentials"}},
    "user.login.new-device": _FEDERATED,
    "user.login.success": _FEDERATED,
    "user.reactivate": {"user": user()},
    "user.registration.create": _REGISTRATION,
    "user.registration.create.complete": _REGISTRATION,
    "user.registration.delete": _REGISTRATION,
    "user.registration.delete.complete": _REGISTRATION,
    "user.registration.update": {**_REGISTRATION, "original": registration(roles=[])},
    "user.registration.update.complete": {**_REGISTRATION, "original": registration(roles=[])},
    "user.update": {"user": user(), "original": user(email="old@example.com")},
    "user.update.complete": {"user": user(), "original": user(email="old@example.com")},
}
