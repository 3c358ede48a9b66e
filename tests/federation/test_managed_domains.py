"""A provider that manages domains authenticates users of those domains only; verification of addresses."""

from __future__ import annotations

import dataclasses

import pytest

from identity.domain.providers import external_identities, social_providers
from identity.ids import new_id
from tests.federation.test_strategies import set_claims


def domain() -> str:
    return f"{new_id()}.example.com"


@pytest.mark.requirement("core-11-52")
async def test_address_of_another_domain_is_refused(federated, fake) -> None:
    managed = domain()
    await federated.change(domains=[managed])
    victim = await federated.make_user(email=f"victim@{domain()}")
    for email in (victim["email"], f"a@sub.{managed}", f"a@{managed}.evil.example"):
        set_claims(fake, email=email)
        assert (await federated.log_in()).status_code == 401, email
    assert await federated.links(victim["id"]) == []
    set_claims(fake, email=f"Ada@{managed.upper()}")
    assert (await federated.logged_in())["user"]["email"] == f"ada@{managed}"


@pytest.mark.requirement("core-11-52")
async def test_linked_user_is_refused_with_an_address_of_another_domain(federated, fake) -> None:
    managed = domain()
    await federated.change(domains=[managed])
    person = set_claims(fake, email=f"ada@{managed}")
    await federated.logged_in()
    fake.userinfo = {**person, "email": f"ada@{domain()}"}
    assert (await federated.log_in()).status_code == 401


@pytest.mark.requirement("core-11-52")
async def test_username_leads_to_no_user_of_another_domain(federated, fake) -> None:
    """The asserted username is that of a user whose address the provider does not manage, or is such an address."""
    managed = domain()
    await federated.change(domains=[managed], linkingStrategy="LinkByUsername")
    victim = await federated.make_user(email=f"victim@{domain()}", username=new_id())
    for username in (victim["username"], victim["email"]):
        set_claims(fake, preferred_username=username)
        assert (await federated.log_in()).status_code == 401, username
    assert await federated.links(victim["id"]) == []
    own = await federated.make_user(email=f"ada@{managed}", username=new_id())
    set_claims(fake, preferred_username=own["username"])
    assert (await federated.logged_in())["user"]["id"] == own["id"]


CONFLICTING = [
    ({"email": "userinfo", "email_verified": None}, {"email": "token", "email_verified": True}, ("token", True)),
    ({"email": "userinfo"}, {"email_verified": True}, ("userinfo", None)),
    ({"email_verified": True}, {"email": "token"}, ("token", None)),
    ({"email": "userinfo", "email_verified": False}, {"email": "token", "email_verified": True}, ("userinfo", False)),
    ({"email": "userinfo"}, {"email": "token"}, ("userinfo", None)),
    ({}, {"email": "token", "email_verified": True}, ("token", True)),
    ({}, {}, (None, None)),
]


@pytest.mark.requirement("core-11-53")
@pytest.mark.parametrize(("userinfo", "id_token", "expected"), CONFLICTING)
def test_address_and_its_verification_are_of_one_source(userinfo, id_token, expected) -> None:
    oauth2 = dict(social_providers.CLAIMS)
    claims = external_identities.merge_claims(oauth2, {"sub": "a", "n": 1, **id_token}, {"n": 2, **userinfo})
    assert (claims.get("email"), claims.get("email_verified")) == expected
    assert (claims["sub"], claims["n"]) == ("a", 2)


@pytest.mark.requirement("core-11-53")
async def test_verification_of_one_address_does_not_verify_another(federated, fake) -> None:
    victim = await federated.make_user(email=f"{new_id()}@example.com")
    fake.id_claims = fake.claims(email=f"{new_id()}@example.com", email_verified=True)
    fake.userinfo = {"sub": "person", "email": victim["email"]}
    found = (await federated.logged_in())["user"]
    assert found["id"] != victim["id"]
    fake.id_claims, fake.userinfo = fake.claims(sub="b", email_verified=True), {"sub": "b", "email": victim["email"]}
    assert (await federated.log_in()).status_code == 401


@pytest.mark.requirement("core-11-53")
@pytest.mark.parametrize("value", ["true", "True", "TRUE", "1", 1, "yes", [True], {"value": True}, "false", False])
async def test_only_the_boolean_true_verifies_an_address(federated, fake, value) -> None:
    victim = await federated.make_user(email=f"{new_id()}@example.com")
    set_claims(fake, email=victim["email"], email_verified=value)
    assert (await federated.log_in()).status_code == 401
    assert await federated.links(victim["id"]) == []


@pytest.mark.requirement("core-11-53")
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("Apple", "true", True),
        ("Apple", True, True),
        ("Apple", "false", False),
        ("Google", "true", None),
        ("Google", True, True),
        ("Twitch", "yes", False),
    ],
)
def test_string_of_apple_alone_verifies_an_address(kind, value, expected) -> None:
    oauth2 = {**social_providers.CLAIMS, **social_providers.PROVIDERS[kind].oauth2}
    claims = {"sub": "a", "email": "a@example.com", "email_verified": value}
    identity = external_identities.parse(oauth2, claims, lambda_arguments=())
    assert identity is not None
    assert identity.is_email_verified is expected


@pytest.mark.requirement("core-11-52")
def test_username_in_the_form_of_an_address_is_one() -> None:
    identity = external_identities.ExternalIdentity("a", "a@example.com", True, "B@Other.example", {})
    assert identity.addresses == ("a@example.com", "b@other.example")
    assert dataclasses.replace(identity, email=None, username="ada").addresses == ()
