"""The journey's second half: users, their registrations, groups, entities, consents, families and actions."""

from __future__ import annotations

from typing import Any

from identity.ids import new_id
from tests.clients.journeys.clients import Answer, Journey
from tests.clients.journeys.configuration import manage, search
from tests.relying_party import PASSWORD

Document = dict[str, Any]

INDEFINITE = 9223372036854775807


def new_user(**members: Any) -> Document:
    """Return a user as the published examples write one."""
    return {
        "email": f"{new_id()}@example.com", "password": PASSWORD, "firstName": "Ada", "lastName": "Lovelace",
        "birthDate": "1976-05-30", "preferredLanguages": ["en", "fr"], "timezone": "America/Denver",
        "data": {"favoriteColor": "red"}, **members,
    }  # fmt: skip


async def create(call: Journey, **members: Any) -> Answer:
    request = {"user": new_user(**members), "sendSetPasswordEmail": False, "skipVerification": True}
    return Answer((await call("createUser", userId=None, request=request))["user"])


async def users(call: Journey, application_id: str) -> Answer:
    """Create, find, change and delete users; return a registered user."""
    request = {
        "user": new_user(),
        "registration": {"applicationId": application_id, "roles": ["user"]},
        "skipVerification": True,
    }
    registered = (await call("register", userId=None, request=request))["user"]
    registration = {"registration": {"applicationId": application_id, "roles": ["admin"], "timezone": "Europe/Paris"}}
    await call("updateRegistration", userId=registered["id"], request=registration)
    await call(
        "patchRegistration",
        userId=registered["id"],
        request={"registration": {"applicationId": application_id, "data": {"a": 1}}},
    )
    await call("retrieveRegistration", userId=registered["id"], applicationId=application_id)
    user = await create(call, username=f"ada-{new_id()}")
    user_id = user["id"]
    for method in ("deleteRegistration", "deleteRegistrationWithRequest"):
        await call("register", userId=user_id, request={"registration": {"applicationId": application_id}})
        more = {"request": {"eventInfo": {"ipAddress": "192.0.2.7"}}} if method.endswith("Request") else {}
        await call(method, userId=user_id, applicationId=application_id, **more)
    current = await call("retrieveUser", userId=user_id)
    await call("updateUser", userId=user_id, request=current)
    await call("patchUser", userId=user_id, request={"user": {"firstName": "Augusta"}})
    await call("retrieveUserByEmail", email=user["email"])
    await call("retrieveUserByUsername", username=user["username"])
    await call("retrieveUserByLoginId", loginId=user["email"])
    await call("retrieveUserByLoginIdWithLoginIdTypes", loginId=user["email"], loginIdTypes=["email"])
    await searches(call, user)
    await call("deactivateUser", userId=user_id)
    await call("reactivateUser", userId=user_id)
    await call("deleteUser", userId=user_id)
    other = await create(call)
    await call("deleteUserWithRequest", userId=other["id"], request={"hardDelete": True})
    return registered


async def searches(call: Journey, user: Answer) -> None:
    """Search users in the published ways."""
    sort = {"sortFields": [{"name": "email", "order": "asc"}]}
    for query in (
        user["email"], "*", f"email:{user['email']}", f"lastName:Lovelace AND email:{user['email']}",
        f"(firstName:A* OR firstName:B*) AND NOT lastName:Babbage AND id:{user['id']}",
    ):  # fmt: skip
        await search(call, "searchUsersByQuery", queryString=query, **sort)
    term = '{"bool": {"must": [{"term": {"lastName": "lovelace"}}, {"exists": {"field": "email"}}]}}'
    await search(call, "searchUsersByQuery", query=term)
    await search(call, "searchUsersByQueryString", queryString="Lovelace", accurateTotal=True)
    await call("searchUsers", ids=[user["id"]])
    await call("searchUsersByIds", ids=[user["id"], new_id()])
    await call("refreshUserSearchIndex")


async def many_users(call: Journey, application_id: str) -> None:
    """Import users and refresh tokens, and deactivate and delete many at once."""
    name = new_id()
    salted = {"encryptionScheme": "salted-md5", "factor": 1, "salt": "", "password": "X03MO1qnZdYdgyfeuILPmQ=="}
    imported: list[Document] = [
        {"id": new_id(), "email": f"{index}-{name}@example.com", "lastName": name, "active": True, **salted}
        for index in range(6)
    ]
    imported[0]["registrations"] = [{"applicationId": application_id, "roles": ["user"]}]
    ids = [user["id"] for user in imported]
    await call("importUsers", request={"users": imported, "validateDbConstraints": True})
    token = {"applicationId": application_id, "userId": ids[0], "token": new_id(), "startInstant": 1700000000000}
    await call("importRefreshTokens", request={"refreshTokens": [token], "validateDbConstraints": True})
    await call("deactivateUsers", userIds=ids[:1])
    await call("deactivateUsersByIds", userIds=ids[1:2])
    await call("deleteUsers", request={"userIds": ids[:2], "hardDelete": True})
    await call("deleteUsersByQuery", request={"queryString": f"lastName:{name}", "hardDelete": True, "dryRun": False})


async def groups(call: Journey, application: Answer, user_id: str) -> None:
    """Manage a group and its members."""
    request = {"group": {"name": f"Admins {new_id()}", "data": {"a": 1}}, "roleIds": [application["roles"][0]["id"]]}
    group = (await call("createGroup", groupId=None, request=request))["group"]
    group_id = group["id"]
    await call("retrieveGroups")
    await call("retrieveGroup", groupId=group_id)
    await call("patchGroup", groupId=group_id, request={"group": {"data": {"b": 2}}})
    await call(
        "updateGroup",
        groupId=group_id,
        request={"group": {"name": f"Chiefs {new_id()}"}, "roleIds": request["roleIds"]},
    )
    await search(call, "searchGroups", name="Chiefs*")
    await call("createGroupMembers", request={"members": {group_id: [{"userId": user_id, "data": {"a": 1}}]}})
    await call("updateGroupMembers", request={"members": {group_id: [{"userId": user_id}]}})
    await search(call, "searchGroupMembers", groupId=group_id)
    await call("deleteGroupMembers", request={"members": {group_id: [user_id]}})
    await call("deleteGroup", groupId=group_id)


async def entities(call: Journey, user_id: str) -> None:
    """Manage entity types, permissions, entities and grants."""
    permissions = [{"name": "read", "isDefault": True}, {"name": "write"}]
    kind = await manage(
        call, "EntityType", {"name": f"Device {new_id()}", "permissions": permissions}, {"data": {"a": 1}}
    )
    added = {"permission": {"name": "delete"}}
    made = (await call("createEntityTypePermission", entityTypeId=kind["id"], permissionId=None, request=added))[
        "permission"
    ]
    named = {"entityTypeId": kind["id"], "permissionId": made["id"]}
    await call("patchEntityTypePermission", **named, request={"permission": {"description": "May delete"}})
    await call("updateEntityTypePermission", **named, request={"permission": {"name": "erase"}})
    await call("deleteEntityTypePermission", **named)
    await search(call, "searchEntityTypes", name="Device*")
    await call("searchEntityTypesByParameters", name="Device", numberOfResults=1, orderBy="name ASC", startRow=0)
    target = await manage(
        call, "Entity", {"name": f"Printer {new_id()}", "type": {"id": kind["id"]}}, {"data": {"a": 1}}, listed=False
    )
    wanted = {"entity": {"name": f"Robot {new_id()}", "type": {"id": kind["id"]}}}
    robot = (await call("createEntity", entityId=None, request=wanted))["entity"]
    await call("refreshEntitySearchIndex")
    await search(call, "searchEntities", queryString="Printer*", sortFields=[{"name": "name", "order": "asc"}])
    await call("searchEntitiesByIds", ids=[target["id"]])
    await grants(call, target, robot, user_id)
    for entity in (target, robot):
        await call("deleteEntity", entityId=entity["id"])
    await call("deleteEntityType", entityTypeId=kind["id"])


async def grants(call: Journey, target: Answer, robot: Answer, user_id: str) -> None:
    """Grant permissions on an entity, and use them."""
    permissions = ["read", "write"]
    await call(
        "upsertEntityGrant",
        entityId=target["id"],
        request={"grant": {"recipientEntityId": robot["id"], "permissions": permissions}},
    )
    await call(
        "upsertEntityGrant", entityId=target["id"], request={"grant": {"userId": user_id, "permissions": permissions}}
    )
    await call("retrieveEntityGrant", entityId=target["id"], recipientEntityId=robot["id"], userId=None)
    await call("retrieveEntityGrant", entityId=target["id"], recipientEntityId=None, userId=user_id)
    await search(call, "searchEntityGrants", entityId=target["id"])
    criteria = {"numberOfResults": 5, "orderBy": "insertInstant", "startRow": 0}
    await call("searchEntityGrantsByParameters", entityId=target["id"], name=None, userId=None, **criteria)
    credentials = {
        "client_id": robot["clientId"],
        "client_secret": robot["clientSecret"],
        "scope": f"target-entity:{target['id']}:read",
    }
    tokens = await call("clientCredentialsGrant", **credentials)
    await call("introspectClientCredentialsAccessToken", token=tokens["access_token"])
    request = {"token": tokens["access_token"], "tenantId": call.tenant_id}
    await call("introspectClientCredentialsAccessTokenWithRequest", request=request)
    request = {**credentials, "grant_type": "client_credentials", "tenantId": call.tenant_id}
    await call("clientCredentialsGrantWithRequest", request=request)
    await call("deleteEntityGrant", entityId=target["id"], recipientEntityId=robot["id"], userId=None)
    await call("deleteEntityGrant", entityId=target["id"], recipientEntityId=None, userId=user_id)


async def consents(call: Journey, user_id: str) -> None:
    """Manage a consent, and give and revoke it."""
    wanted = {
        "name": f"Newsletter {new_id()}", "defaultMinimumAgeForSelfConsent": 13, "values": ["daily", "weekly"],
        "countryMinimumAgeForSelfConsent": {"de": 16}, "multipleValuesAllowed": False,
    }  # fmt: skip
    consent = await manage(call, "Consent", wanted, {"data": {"a": 1}})
    await search(call, "searchConsents", name="Newsletter*")
    await call("searchConsentsByParameters", name="Newsletter", numberOfResults=1, orderBy="name ASC", startRow=0)
    given = {
        "userConsent": {"consentId": consent["id"], "userId": user_id, "giverUserId": user_id, "values": ["daily"]}
    }
    made = (await call("createUserConsent", userConsentId=None, request=given))["userConsent"]["id"]
    await call("retrieveUserConsent", userConsentId=made)
    await call("retrieveUserConsents", userId=user_id)
    await call("updateUserConsent", userConsentId=made, request={"userConsent": {"values": ["weekly"]}})
    await call("revokeUserConsent", userConsentId=made)
    await call("patchUserConsent", userConsentId=made, request={"userConsent": {"status": "Active"}})
    await call("deleteConsent", consentId=consent["id"])


async def families(call: Journey) -> None:
    """Make a family with a child, and ask a parent for one."""
    owner, partner = await create(call), await create(call)
    child = await create(call, birthDate="2016-05-30", parentEmail=owner["email"])
    await call("retrievePendingChildren", parentEmail=owner["email"])
    await call("sendFamilyRequestEmail", request={"parentEmail": owner["email"]})
    founded = {"familyMember": {"userId": owner["id"], "owner": True, "role": "Adult"}}
    family_id = (await call("createFamily", familyId=None, request=founded))["family"]["id"]
    await call(
        "addUserToFamily", familyId=family_id, request={"familyMember": {"userId": child["id"], "role": "Child"}}
    )
    await call("updateFamily", familyId=family_id, request={"familyMember": {"userId": partner["id"], "role": "Adult"}})
    await call("retrieveFamilyMembersByFamilyId", familyId=family_id)
    await call("retrieveFamilies", userId=owner["id"])
    await call("removeUserFromFamily", familyId=family_id, userId=child["id"])


async def actions(call: Journey) -> None:
    """Define an action and its reason, take it on a user, and comment on the user."""
    user, moderator = await create(call), await create(call)
    wanted = {"name": f"Ban {new_id()}", "temporal": True, "preventLogin": True, "localizedNames": {"de": "Sperre"}}
    made = await manage(call, "UserAction", wanted, {"userNotificationsEnabled": False})
    reason = {"code": f"SPAM-{new_id()}", "text": f"Spam {new_id()}", "localizedTexts": {"de": "Werbung"}}
    cause = await manage(call, "UserActionReason", reason, {"localizedTexts": {"fr": "Publicité"}})
    who = {"actioneeUserId": user["id"], "actionerUserId": moderator["id"]}
    ban = {
        **who,
        "userActionId": made["id"],
        "reasonId": cause["id"],
        "expiry": INDEFINITE,
        "comment": "Posted advertising",
    }
    action_id = (await call("actionUser", request={"action": ban, "broadcast": True}))["action"]["id"]
    await call("retrieveAction", actionId=action_id)
    for method in (
        "retrieveActions",
        "retrieveActiveActions",
        "retrieveActionsPreventingLogin",
        "retrieveInactiveActions",
    ):
        await call(method, userId=user["id"])
    changed = {"action": {"actionerUserId": moderator["id"], "comment": "Looked at again", "expiry": INDEFINITE - 1}}
    await call("modifyAction", actionId=action_id, request=changed)
    await call("cancelAction", actionId=action_id, request={"action": {"actionerUserId": moderator["id"]}})
    comment = {"userComment": {"comment": "Called", "commenterId": moderator["id"], "userId": user["id"]}}
    await call("commentOnUser", request=comment)
    await call("retrieveUserComments", userId=user["id"])
    await search(call, "searchUserComments", userId=user["id"], comment="Called")
    await call("deactivateUserAction", userActionId=made["id"])
    await call("retrieveInactiveUserActions")
    await call("reactivateUserAction", userActionId=made["id"])
    await call("deleteUserAction", userActionId=made["id"])
    await call("deleteUserActionReason", userActionReasonId=cause["id"])
