"""Resource indicators: accepted URIs and token audiences."""

from __future__ import annotations

import pytest

from identity.domain.authorization import request_objects
from identity.domain.clients import resource_indicators
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import InvalidTarget

ONE, OTHER, URN = "https://one.example.com/", "https://other.example.com/api?x=1", "urn:example:api"
OAUTH = OAuthSettings(authorized_resource_uris=(ONE, OTHER, URN))
OFF = OAuthSettings()


def refuse(check, *arguments) -> str:
    with pytest.raises(InvalidTarget) as caught:
        check(*arguments)
    assert (caught.value.error, caught.value.reason, caught.value.status) == ("invalid_target", None, 400)
    return caught.value.description


@pytest.mark.requirement("oauth-12-3")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, ()),
        (ONE, (ONE,)),
        (f"{OTHER} {ONE} {OTHER}", (OTHER, ONE)),
        (URN, (URN,)),
    ],
)
def test_each_listed_resource_is_accepted(text, wanted):
    assert resource_indicators.parse(text, OAUTH) == wanted
    assert resource_indicators.parse(text, OFF) == ()


@pytest.mark.requirement("oauth-1.2-row-20")
@pytest.mark.parametrize(
    "text",
    [
        "https://one.example.com",  # compared octet by octet (RFC 3986 section 6.2.1)
        "HTTPS://one.example.com/",
        "https://one.example.com/#fragment",
        "https://one.example.com/#",
        "//one.example.com/",
        "/api",
        "one",
        ":",
        "https:",
        "https://one.example.com/\t",
        f"{ONE} https://unknown.example.com/",
        f"{ONE}  {OTHER}",
        " ",
    ],
)
def test_other_resources_are_invalid_targets(text):
    assert "resource" in refuse(resource_indicators.parse, text, OAUTH)
    assert resource_indicators.parse(text, OFF) == ()


def test_resource_list_is_limited_to_ten_thousand():
    assert resource_indicators.parse(" ".join([ONE] * 10_000), OAUTH) == (ONE,)
    refuse(resource_indicators.parse, " ".join([ONE] * 10_001), OAUTH)


@pytest.mark.requirement("oauth-12-3")
def test_token_request_narrows_the_resources_of_the_code():
    assert resource_indicators.for_code(f"{URN} {ONE}", [ONE, URN], OAUTH) == (URN, ONE)
    assert resource_indicators.for_code(None, [], OAUTH) == ()
    assert resource_indicators.for_code(None, [ONE], OFF) == ()
    refuse(resource_indicators.for_code, None, [ONE], OAUTH)
    refuse(resource_indicators.for_code, OTHER, [ONE], OAUTH)
    refuse(resource_indicators.for_code, f"{ONE} {OTHER}", [ONE], OAUTH)
    refuse(resource_indicators.for_code, ONE, [], OAUTH)


@pytest.mark.requirement("attack-28", "oauth-12-3")
def test_attack_28_refresh_cannot_widen_resources():
    assert resource_indicators.for_refresh(None, [ONE, OTHER], OAUTH) == (ONE, OTHER)
    assert resource_indicators.for_refresh(OTHER, [ONE, OTHER], OAUTH) == (OTHER,)
    refuse(resource_indicators.for_refresh, URN, [ONE, OTHER], OAUTH)
    refuse(resource_indicators.for_refresh, f"{ONE} {URN}", [ONE, OTHER], OAUTH)
    # What the application was forbidden since is not given any more.
    assert resource_indicators.for_refresh(None, [ONE, "https://gone.example.com/"], OAUTH) == (ONE,)
    refuse(resource_indicators.for_refresh, "https://gone.example.com/", [ONE, "https://gone.example.com/"], OAUTH)
    assert resource_indicators.for_refresh(ONE, [ONE], OFF) == ()


@pytest.mark.requirement("oauth-12-3")
def test_request_object_names_several_in_a_list():
    assert request_objects.parameters({"resource": [ONE, URN]}, ["resource"]) == {"resource": f"{ONE} {URN}"}
    assert request_objects.parameters({"resource": ONE}, ["resource"]) == {"resource": ONE}
    for value in ([ONE, 1.5], [[ONE]], {"a": ONE}):
        with pytest.raises(ValueError, match="has an invalid resource"):
            request_objects.parameters({"resource": value}, ["resource"])
