"""Linking strategies for accounts without a link, and trust in claims of the provider."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from identity.ids import new_id
from tests import internals

STRATEGIES = [
    *("CreatePendingLink", "Disabled", "LinkAnonymously", "LinkByEmail", "LinkByEmailForExistingUser"),
    *("LinkByUsername", "LinkByUsernameForExistingUser", "Unsupported"),
]


def set_claims(fake: Any, **claims: Any) -> dict[str, Any]:
    verified = {"email_verified": True} if "email" in claims else {}
    fake.userinfo = {"sub": new_id(), **verified, **claims}
    return dict(fake.userinfo)


@pytest.mark.requirement("core-11-38", "core-11-49")
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_linked_user_logs_in_with_every_strategy(federated, fake, strategy) -> None:
    user = await federated.make_user(email=f"{new_id()}@example.com")
    person = set_claims(fake, email="user@other.example.com", email_verified=False)
    link = {
        "identityProviderId": federated.provider["id"],
        "identityProviderUserId": person["sub"],
        "userId": user["id"],
    }
    await federated.api.post("/api/identity-provider/link", json={"identityProviderLink": link})
    await federated.change(linkingStrategy=strategy)
    found = (await federated.logged_in(noLink=True))["user"]
    assert (found["id"], found["email"]) == (user["id"], user["email"])
    (stored,) = await federated.links(user["id"])
    assert stored["displayName"] == "user@other.example.com"


@pytest.mark.requirement("core-11-8")
@pytest.mark.parametrize("strategy", ["LinkByEmail", "LinkByEmailForExistingUser"])
async def test_link_by_email_finds_a_user(federated, fake, strategy) -> None:
    user = await federated.make_user(username=new_id())
    set_claims(fake, email=user["email"].upper(), email_verified=True, preferred_username="someone")
    await federated.change(linkingStrategy=strategy)
    found = (await federated.logged_in())["user"]
    assert (found["id"], found["username"]) == (user["id"], user["username"])
    assert len(await federated.links(user["id"])) == 1
    assert await federated.count_users() == 1


@pytest.mark.requirement("core-11-8")
@pytest.mark.parametrize("strategy", ["LinkByUsername", "LinkByUsernameForExistingUser"])
async def test_link_by_username_finds_a_user(federated, fake, strategy) -> None:
    user = await federated.make_user(username=f"Name-{new_id()}")
    set_claims(fake, preferred_username=user["username"].upper(), email="other@example.com", email_verified=False)
    await federated.change(linkingStrategy=strategy)
    found = (await federated.logged_in())["user"]
    assert (found["id"], found["email"]) == (user["id"], user["email"])


@pytest.mark.requirement("core-11-34", "core-11-8")
@pytest.mark.parametrize("strategy", ["LinkByEmailForExistingUser", "LinkByUsernameForExistingUser"])
async def test_strategies_for_existing_users_create_no_user(federated, fake, strategy) -> None:
    set_claims(fake, email=f"{new_id()}@example.com", preferred_username=new_id())
    await federated.change(linkingStrategy=strategy)
    assert (await federated.log_in()).status_code == 404
    assert await federated.count_users() == 0


@pytest.mark.requirement("core-11-8")
@pytest.mark.parametrize("strategy", ["Disabled", "Unsupported"])
async def test_disabled_linking_does_not_find_users_by_email(federated, fake, strategy) -> None:
    user = await federated.make_user()
    set_claims(fake, email=user["email"], email_verified=True)
    await federated.change(linkingStrategy=strategy)
    assert (await federated.log_in()).status_code == 404
    assert await federated.links(user["id"]) == []


@pytest.mark.requirement("core-11-29")
async def test_no_link_option_creates_no_link(federated, fake) -> None:
    set_claims(fake, email=f"{new_id()}@example.com")
    assert (await federated.log_in(noLink=True)).status_code == 404
    assert await federated.count_users() == 0
    await federated.logged_in(noLink=False)
    await federated.logged_in(noLink=True)


async def test_link_by_email_creates_a_verified_user(federated, fake) -> None:
    person = set_claims(fake, email=f"{new_id()}@example.com", preferred_username="someone")
    user = (await federated.logged_in())["user"]
    assert (user["email"], user["verified"]) == (person["email"], True)
    assert "username" not in user
    (identity,) = user["identities"]
    assert identity["verifiedReason"] == "Trusted"
    stored = await federated.api.get(f"/api/user/{user['id']}")
    assert "encryptionScheme" not in stored.json()["user"], "no password"


@pytest.mark.requirement("core-11-8")
async def test_link_anonymously_creates_a_user_without_login_ids(federated, fake) -> None:
    set_claims(fake, email=f"{new_id()}@example.com", email_verified=True, preferred_username="someone")
    await federated.change(linkingStrategy="LinkAnonymously")
    user = (await federated.logged_in())["user"]
    assert "email" not in user
    assert "username" not in user
    assert (await federated.logged_in())["user"]["id"] == user["id"]
    set_claims(fake)
    assert (await federated.logged_in())["user"]["id"] != user["id"]


@pytest.mark.parametrize(
    ("verified", "is_taken", "expected"),
    [(True, False, True), (None, False, False), (False, False, False), (True, True, False)],
)
async def test_link_by_username_sets_an_unused_trusted_email(federated, fake, verified, is_taken, expected) -> None:
    email = f"{new_id()}@example.com"
    if is_taken:
        await federated.make_user(email=email)
    person = set_claims(fake, preferred_username=new_id(), email=email, email_verified=verified)
    await federated.change(linkingStrategy="LinkByUsername")
    user = (await federated.logged_in())["user"]
    assert user["username"] == person["preferred_username"]
    assert ("email" in user) is expected
    assert user["verified"] is expected


@pytest.mark.requirement("core-11-34")
@pytest.mark.parametrize("doubt", [False, "false", "False", None, "perhaps"])
@pytest.mark.parametrize("is_known", [True, False])
async def test_unverified_provider_email_creates_no_link(federated, fake, doubt, is_known) -> None:
    email = f"{new_id()}@example.com"
    if is_known:
        await federated.make_user(email=email)
    set_claims(fake, email=email, email_verified=doubt)
    assert (await federated.log_in()).status_code == 401
    assert await federated.count_users() == int(is_known)


@pytest.mark.requirement("audit-a7")
@pytest.mark.parametrize(("trusted", "stated", "status"), [(True, None, 200), (True, False, 401), (False, None, 401)])
async def test_trust_email_accepts_an_address_without_verified_claim(federated, fake, trusted, stated, status) -> None:
    user = await federated.make_user()
    await federated.change(trustEmail=trusted)
    fake.userinfo = {"sub": new_id(), "email": user["email"]}
    if stated is not None:
        fake.userinfo["email_verified"] = stated
    assert (await federated.log_in()).status_code == status
    assert len(await federated.links(user["id"])) == int(status == 200)


@pytest.mark.parametrize("email", [None, "", "no address", 7, ["a@example.com"], f"{'x' * 300}@example.com"])
async def test_link_by_email_requires_an_email(federated, fake, email) -> None:
    set_claims(fake, email=email)
    assert (await federated.log_in()).status_code == 401


@pytest.mark.parametrize("username", [None, " ", 7, "\x00", "u" * 256])
async def test_link_by_username_requires_a_username(federated, fake, username) -> None:
    set_claims(fake, preferred_username=username)
    await federated.change(linkingStrategy="LinkByUsername")
    assert (await federated.log_in()).status_code == 401


@pytest.mark.requirement("core-11-20")
@pytest.mark.parametrize("unique_id", [None, "", " x", True, {"a": 1}, "x" * 256, "\ud800", "a\x00b"])
async def test_login_requires_a_valid_unique_id(federated, fake, unique_id) -> None:
    fake.userinfo = {"sub": unique_id, "email": f"{new_id()}@example.com"}
    assert (await federated.log_in()).status_code == 401
    assert await federated.count_users() == 0


@pytest.mark.requirement("core-11-20")
async def test_claim_names_are_configurable(federated, fake) -> None:
    names = {"uniqueIdClaim": "id", "emailClaim": "mail", "emailVerifiedClaim": "ok", "usernameClaim": "login"}
    await federated.change(oauth2=names)
    set_claims(fake, id=4711, mail=f"{new_id()}@example.com", ok=True, login="someone")
    user = (await federated.logged_in())["user"]
    assert user["email"] == fake.userinfo["mail"]
    (link,) = await federated.links(user["id"])
    assert link["identityProviderUserId"] == "4711"
    set_claims(fake, id=4712, mail=f"{new_id()}@example.com", ok=False)
    assert (await federated.log_in()).status_code == 401


@pytest.mark.requirement("core-11-21")
async def test_userinfo_takes_precedence_over_the_id_token(federated, fake) -> None:
    fake.userinfo = {"sub": "person", "email": f"{new_id()}@example.com", "email_verified": True}
    fake.id_claims = fake.claims(email="older@example.com", email_verified=True, preferred_username="from the token")
    user = (await federated.logged_in())["user"]
    assert user["email"] == fake.userinfo["email"]
    fake.userinfo = {"sub": "person"}
    assert (await federated.logged_in())["user"]["id"] == user["id"]
    (link,) = await federated.links(user["id"])
    assert link["displayName"] == "older@example.com"


async def test_two_subjects_with_one_email_are_linked_to_one_user(federated, fake) -> None:
    email = f"{new_id()}@example.com"
    set_claims(fake, email=email)
    first = (await federated.logged_in())["user"]
    set_claims(fake, email=email)
    assert (await federated.logged_in())["user"]["id"] == first["id"]
    assert len(await federated.links(first["id"])) == 2


@pytest.mark.requirement("core-11-7")
async def test_number_of_links_is_limited_by_the_tenant(federated, fake) -> None:
    limit = {federated.tenant["id"]: {"limitUserLinkCount": {"enabled": True, "maximumLinks": 2}}}
    await federated.change(tenantConfiguration=limit)
    email = f"{new_id()}@example.com"
    for _ in range(2):
        set_claims(fake, email=email)
        user = (await federated.logged_in())["user"]
    set_claims(fake, email=email)
    answer = await federated.log_in()
    assert answer.status_code == 400
    assert [error["code"] for error in answer.json()["generalErrors"]] == ["[LinkCountExceeded]"]
    assert len(await federated.links(user["id"])) == 2
    limit[federated.tenant["id"]]["limitUserLinkCount"]["enabled"] = False
    await federated.change(tenantConfiguration=limit)
    await federated.logged_in()


@pytest.mark.requirement("core-11-7")
async def test_link_limit_holds_for_concurrent_logins(federated, fake) -> None:
    limit = {federated.tenant["id"]: {"limitUserLinkCount": {"enabled": True, "maximumLinks": 3}}}
    await federated.change(tenantConfiguration=limit)
    user = await federated.make_user()

    async def link() -> int:
        account = {"identityProviderId": federated.provider["id"], "identityProviderUserId": new_id()}
        answer = await federated.api.post(
            "/api/identity-provider/link", json={"identityProviderLink": {**account, "userId": user["id"]}}
        )
        return answer.status_code

    statuses = sorted(await asyncio.gather(*(link() for _ in range(24))))
    assert statuses.count(200) == 3
    assert set(statuses) <= {200, 400, 503}
    assert len(await federated.links(user["id"])) == 3


@pytest.mark.requirement("core-11-38")
async def test_link_to_a_deleted_user_is_replaced(federated, fake, service) -> None:
    person = set_claims(fake, email=f"{new_id()}@example.com")
    user = (await federated.logged_in())["user"]
    where = {"_id": user["id"]}
    await internals.store(service, "users").delete_all(federated.tenant["id"], where)
    again = (await federated.logged_in())["user"]
    assert again["id"] != user["id"]
    (link,) = await federated.links(again["id"])
    assert link["identityProviderUserId"] == person["sub"]


async def test_blocked_domain_cannot_register_through_a_provider(federated, fake) -> None:
    await federated.configure_tenant(registrationConfiguration={"blockedDomains": ["blocked.example.com"]})
    set_claims(fake, email="someone@blocked.example.com")
    answer = await federated.log_in()
    assert answer.status_code == 400
    assert list(answer.json()["fieldErrors"]) == ["user.email"]
    assert await federated.count_users() == 0


# Pending links


@pytest.mark.requirement("core-11-32", "core-11-47", "core-11-8")
async def test_a_pending_link_is_completed_once_and_then_logs_in(federated, fake) -> None:
    person = set_claims(fake, email=f"{new_id()}@example.com", preferred_username="someone")
    fake.token_answer = {"refresh_token": "a refresh token"}
    await federated.change(linkingStrategy="CreatePendingLink")
    answer = await federated.logged_in(232)
    assert set(answer) == {"pendingIdPLinkId"}
    assert await federated.count_users() == 0
    user = await federated.make_user()
    path = f"/api/identity-provider/link/pending/{answer['pendingIdPLinkId']}"
    pending = (await federated.api.get(path)).json()
    assert pending == {
        "linkCount": 0,
        "pendingIdPLink": {
            "displayName": person["email"],
            "email": person["email"],
            "identityProviderId": federated.provider["id"],
            "identityProviderLinks": [],
            "identityProviderName": federated.provider["name"],
            "identityProviderType": "OpenIDConnect",
            "identityProviderUserId": person["sub"],
            "username": "someone",
        },
    }
    body = {"pendingIdPLinkId": answer["pendingIdPLinkId"], "identityProviderLink": {"userId": user["id"]}}
    link = (await federated.api.post("/api/identity-provider/link", json=body)).json()["identityProviderLink"]
    assert (link["identityProviderUserId"], link["userId"]) == (person["sub"], user["id"])
    assert (link["displayName"], link["token"]) == (person["email"], "a refresh token")
    again = await federated.api.post("/api/identity-provider/link", json=body)
    assert again.json()["fieldErrors"]["pendingIdPLinkId"][0]["code"] == "[invalid]pendingIdPLinkId"
    assert (await federated.api.get(path)).status_code == 404
    assert (await federated.logged_in())["user"]["id"] == user["id"]


@pytest.mark.requirement("core-11-47")
async def test_a_pending_link_expires(federated, fake, service) -> None:
    await federated.configure_tenant(externalIdentifierConfiguration={"pendingAccountLinkTimeToLiveInSeconds": 77})
    await federated.change(linkingStrategy="CreatePendingLink")
    await federated.logged_in(232)
    redis = internals.redis(service)
    keys = [key async for key in redis.client.scan_iter(match=redis.key("pending-link", "*"))]
    lives = [await redis.client.ttl(key) for key in keys]
    assert any(70 <= life <= 77 for life in lives)
    assert all(life > 0 for life in lives)
