"""Validation of authorization requests: order of checks and where errors are sent."""

from __future__ import annotations

import pytest

from identity.domain.authorization import authorization_request as rules
from identity.domain.authorization import response_types
from identity.errors import AccessDenied, InvalidRequest, OAuth2Error
from tests.builders import make_application

CALLBACK = "https://app.example.com/cb"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
OWN_ORIGIN = "https://id.example.com"
S256 = {"code_challenge_method": "S256"}
BAD_METHOD = ("invalid_request", "invalid_pkce_code_challenge_method")
ALL_GRANTS = ["authorization_code", "implicit", "refresh_token"]


def make(**oauth):
    return make_application({"authorizedRedirectURLs": [CALLBACK], "enabledGrants": ALL_GRANTS, **oauth})


def request(**members):
    """A valid request with changes; None removes a parameter."""
    given = {
        "client_id": "x",
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid",
        "state": "s",
        **members,
    }
    return {name.replace("__", "."): value for name, value in given.items() if value is not None}


def accept(application=None, *, origin=None, **members):
    return rules.validate(request(**members), application or make(), origin=origin, own_origin=OWN_ORIGIN)


def refuse(application=None, *, origin=None, **members) -> tuple[str, str | None]:
    with pytest.raises(OAuth2Error) as caught:
        accept(application, origin=origin, **members)
    return caught.value.error, caught.value.reason


def test_valid_request_is_parsed_completely():
    application = make()
    accepted = accept(
        application,
        nonce="n",
        code_challenge=CHALLENGE,
        code_challenge_method="S256",
        prompt="login consent",
        max_age="300",
        scope="openid offline_access email openid",
        login_hint="someone",
        id_token_hint="a.b.c",
        locale="de",
        metaData__device__name="phone",
        metaData__device__type="MOBILE",
    )
    assert accepted.client_id == application["id"]
    assert (accepted.redirect_uri, accepted.response_mode, accepted.state) == (CALLBACK, "query", "s")
    assert accepted.scopes == ("openid", "offline_access", "email")
    assert (accepted.nonce, accepted.code_challenge, accepted.max_age) == ("n", CHALLENGE, 300)
    assert accepted.prompts == {"login", "consent"}
    assert accepted.forces_login and not accepted.forbids_pages
    assert (accepted.login_hint, accepted.id_token_hint, accepted.locales) == ("someone", "a.b.c", ("de",))
    assert accepted.device == {"name": "phone", "type": "MOBILE"}


def test_plain_oauth_request_needs_no_scope():
    accepted = accept(scope=None, state=None)
    assert accepted.scopes == () and accepted.state is None


@pytest.mark.requirement("oauth-1.1-6", "oauth-1.1-9")
@pytest.mark.parametrize(
    "members",
    [
        {"display": "popup"},
        {"display": "nonsense"},
        {"acr_values": "urn:x"},
        {"claims_locales": "de"},
        {"ui_locales": "de en"},
        {"login_hint": "x"},
        {"unknown": "x"},
        {"prompt": "select_account"},
        {"prompt": "login select_account"},
        {"max_age": "0"},
        {"max_age": "10000"},
        {"nonce": None},
    ],
)
def test_hints_and_unknown_parameters_are_accepted(members):
    assert accept(**members).redirect_uri == CALLBACK


@pytest.mark.requirement("oauth-1.1-2")
def test_max_age_zero_is_prompt_login():
    assert accept(max_age="0").forces_login
    assert not accept(max_age="1").forces_login
    assert accept(prompt="none").forbids_pages


@pytest.mark.requirement("certification-authorize-9", "contract-authorize-response_type")
@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("code", "query"),
        ("token", "fragment"),
        ("id_token", "fragment"),
        ("token id_token", "fragment"),
        ("id_token token", "fragment"),
    ],
)
def test_response_type_has_its_default_mode_in_any_order_of_words(text, mode):
    scope = None if text == "token" else "openid"
    accepted = accept(response_type=text, scope=scope, nonce="n")
    assert (accepted.response_mode, accepted.response_type.words) == (mode, set(text.split()))


@pytest.mark.requirement("oauth-1.3-4")
@pytest.mark.parametrize("mode", ["query", "fragment", "form_post"])
def test_code_is_permitted_in_every_response_mode(mode):
    assert accept(response_mode=mode).response_mode == mode


@pytest.mark.requirement("contract-authorize-response_mode")
@pytest.mark.parametrize("mode", ["fragment", "form_post"])
def test_tokens_are_permitted_in_fragment_and_form_post_only(mode):
    assert accept(response_type="id_token", nonce="n", response_mode=mode).response_mode == mode
    assert refuse(response_type="id_token", nonce="n", response_mode="query") == (
        "invalid_request",
        "invalid_response_mode",
    )


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"redirect_uri": None}, ("invalid_request", "missing_redirect_uri")),
        ({"redirect_uri": "https://evil.com/cb"}, ("invalid_request", "invalid_redirect_uri")),
        ({"request": "a.b.c"}, ("request_not_supported", None)),
        ({"request_uri": "urn:x"}, ("request_uri_not_supported", None)),
        ({"registration": "{}"}, ("registration_not_supported", None)),
        ({"response_type": None}, ("invalid_request", "missing_response_type")),
        ({"response_type": "Code"}, ("unsupported_response_type", "invalid_response_type")),
        ({"response_type": "code code"}, ("unsupported_response_type", "invalid_response_type")),
        ({"response_type": "code id_token"}, ("unsupported_response_type", "invalid_response_type")),
        ({"response_type": "code token"}, ("unsupported_response_type", "invalid_response_type")),
        ({"response_type": "code id_token token"}, ("unsupported_response_type", "invalid_response_type")),
        ({"response_type": "none"}, ("unsupported_response_type", "invalid_response_type")),
        ({"response_type": " code"}, ("unsupported_response_type", "invalid_response_type")),
        ({"response_type": "token"}, ("unsupported_response_type", "invalid_response_type")),
        ({"response_mode": "web_message"}, ("invalid_request", "invalid_response_mode")),
        ({"response_mode": "QUERY"}, ("invalid_request", "invalid_response_mode")),
        ({"code_challenge": CHALLENGE}, BAD_METHOD),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "plain"}, BAD_METHOD),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "s256"}, BAD_METHOD),
        ({"code_challenge": "short", **S256}, ("invalid_request", "invalid_pkce_code_challenge")),
        ({"code_challenge_method": "S256"}, ("invalid_request", "missing_code_challenge")),
        ({"scope": "openid nothing"}, ("invalid_scope", "unknown_scope")),
        ({"response_type": "id_token", "scope": "email", "nonce": "n"}, ("invalid_scope", "missing_required_scope")),
        ({"response_type": "id_token token", "scope": None, "nonce": "n"}, ("invalid_scope", "missing_required_scope")),
        ({"response_type": "id_token"}, ("invalid_request", "unknown")),
        ({"response_type": "id_token token"}, ("invalid_request", "unknown")),
        ({"prompt": "none login"}, ("invalid_request", "invalid_prompt")),
        ({"prompt": "None"}, ("invalid_request", "invalid_prompt")),
        ({"prompt": "create"}, ("invalid_request", "invalid_prompt")),
        ({"max_age": "-1"}, ("invalid_request", "unknown")),
        ({"max_age": "1.5"}, ("invalid_request", "unknown")),
        ({"max_age": "soon"}, ("invalid_request", "unknown")),
        ({"max_age": "9" * 50}, ("invalid_request", "unknown")),
        ({"max_age": "\u0661"}, ("invalid_request", "unknown")),
    ],
)  # fmt: skip
def test_invalid_request_is_rejected_with_its_reason(members, expected):
    assert refuse(**members) == expected


def test_disabled_grant_is_refused():
    assert refuse(make(enabledGrants=["implicit"])) == ("unauthorized_client", "grant_type_disabled")
    implicit = {"response_type": "id_token", "nonce": "n"}
    assert refuse(make(enabledGrants=["authorization_code"]), **implicit) == (
        "unauthorized_client",
        "grant_type_disabled",
    )


def test_required_pkce_applies_to_codes_only():
    application = make(proofKeyForCodeExchangePolicy="Required")
    assert refuse(application) == ("invalid_request", "missing_code_challenge")
    assert accept(application, code_challenge=CHALLENGE, code_challenge_method="S256").code_challenge == CHALLENGE
    assert accept(application, response_type="id_token", nonce="n").code_challenge is None


@pytest.mark.requirement("oauth-1.3-7")
def test_implicit_request_gets_no_refresh_token():
    accepted = accept(response_type="id_token", scope="openid offline_access", nonce="n")
    assert accepted.scopes == ("openid",)


def test_unknown_scope_follows_the_policy():
    assert accept(make(unknownScopePolicy="Remove"), scope="openid other").scopes == ("openid",)
    assert accept(make(unknownScopePolicy="Allow"), scope="openid other").scopes == ("openid", "other")


@pytest.mark.parametrize("origin", [None, OWN_ORIGIN, "https://app.example.com", "https://slash.example.com"])
def test_allowed_and_own_origins_are_accepted(origin):
    application = make(authorizedOriginURLs=["https://app.example.com", "https://slash.example.com/"])
    assert accept(application, origin=origin)


def test_other_origins_are_rejected_if_origins_are_restricted():
    application = make(authorizedOriginURLs=["https://app.example.com"])
    assert refuse(application, origin="https://evil.com") == ("invalid_request", "invalid_origin")
    assert refuse(application, origin="null") == ("invalid_request", "invalid_origin_opaque")
    assert accept(origin="https://evil.com"), "no list allows every origin"
    assert accept(origin="null")


ORDER = [
    {"redirect_uri": "https://evil.com"},
    {"request": "a.b.c"},
    {"response_type": None},
    {"response_mode": "x"},
    {"code_challenge_method": "plain"},
    {"code_challenge": "short", "code_challenge_method": "S256"},
    {"scope": "nothing"},
    {"prompt": "x"},
    {"max_age": "x"},
]


@pytest.mark.requirement("oauth-1.2-order")
@pytest.mark.parametrize("first", range(len(ORDER)))
def test_first_failing_check_determines_the_error(first):
    wrong = {}
    for members in reversed(ORDER[first:]):
        wrong |= members
    assert refuse(**wrong) == refuse(**ORDER[first])


@pytest.mark.requirement("attack-10", "certification-authorize-2")
@pytest.mark.parametrize(
    "wrong",
    [
        {"response_type": "nonsense"},
        {"scope": "nothing"},
        {"prompt": "x"},
        {"request": "a.b.c"},
        {"response_mode": "x"},
    ],
)
def test_attack_10_no_redirect_before_the_redirect_uri_is_verified(wrong):
    given = request(redirect_uri="https://evil.com/cb", **wrong)
    assert rules.channel(given, make()).redirect_uri is None
    with pytest.raises(InvalidRequest) as caught:
        rules.validate(given, make(), origin=None, own_origin=OWN_ORIGIN)
    assert caught.value.reason == "invalid_redirect_uri"
    assert rules.channel(request(**wrong), None).redirect_uri is None, "nor before the client is known"
    assert rules.channel(request(redirect_uri=None, **wrong), make()).redirect_uri is None


@pytest.mark.requirement("attack-11")
@pytest.mark.parametrize("name", ["code", "state", "iss", "error", "access_token"])
def test_attack_11_redirect_uri_with_response_parameters_is_rejected(name):
    url = f"{CALLBACK}?x=1&{name}=forged"
    application = make(authorizedRedirectURLs=[url])
    assert refuse(application, redirect_uri=url) == ("invalid_request", "invalid_redirect_uri")
    harmless = f"{CALLBACK}?xcode=1"
    assert accept(make(authorizedRedirectURLs=[harmless]), redirect_uri=harmless)


@pytest.mark.requirement("audit-d1-token-openid", "oauth-1.2-channel")
@pytest.mark.parametrize(
    ("members", "mode"),
    [
        ({}, "query"),
        ({"response_mode": "fragment"}, "fragment"),
        ({"response_mode": "form_post"}, "form_post"),
        ({"response_mode": "nonsense"}, "query"),
        ({"response_type": "id_token"}, "fragment"),
        ({"response_type": "token id_token", "response_mode": "query"}, "fragment"),
        ({"response_type": "token", "response_mode": "form_post"}, "form_post"),
        ({"response_type": "token", "scope": "email"}, "fragment"),
        ({"response_type": "token", "scope": "email openid"}, "query"),
        ({"response_type": "token", "scope": "openid", "response_mode": "query"}, "query"),
        ({"response_type": "nonsense"}, "query"),
        ({"response_type": "code id_token"}, "query"),
        ({"response_type": None}, "query"),
        ({"response_type": None, "response_mode": "form_post"}, "form_post"),
    ],
)
def test_errors_use_the_response_mode_of_the_request(members, mode):
    assert rules.channel(request(**members), make()) == rules.Channel(CALLBACK, mode, "s")


@pytest.mark.requirement("contract-errors-4", "oauth-0.1-12")
def test_error_response_has_description_state_and_issuer():
    error = AccessDenied("consent_canceled", "The user declined.")
    assert rules.error_parameters(error, "s t", "https://id.example.com") == {
        "error": "access_denied",
        "error_reason": "consent_canceled",
        "error_description": "The user declined.",
        "state": "s t",
        "iss": "https://id.example.com",
    }
    bare = rules.error_parameters(AccessDenied(None, "x"), None, "i")
    assert bare == {"error": "access_denied", "error_description": "x", "iss": "i"}


@pytest.mark.requirement("certification-authorize-10")
def test_error_description_has_only_permitted_characters():
    error = InvalidRequest("unknown", 'a"b\\c\x00d\ne€f' + "x" * 2000)
    description = rules.error_parameters(error, None, "i")["error_description"]
    assert description.startswith("a?b?c?d?e?f")
    assert len(description) <= 500


@pytest.mark.requirement("certification-authorize-10")
def test_state_of_128_characters_is_returned_unchanged():
    state = "aZ0-._~" * 18 + "ab"
    assert accept(state=state).state == state
    assert rules.channel(request(state=state), make()).state == state


@pytest.mark.requirement("oauth-1.3-4")
def test_no_type_with_a_token_may_use_the_query():
    hybrid_types = ("code token", "code id_token", "id_token token code")
    for text in ("token", "id_token", "token id_token", *hybrid_types):
        found = response_types.find(text, hybrid=True)
        assert found is not None and "query" not in found.modes
    for text in ("", None, "code code", "code  token"):
        assert response_types.find(text, hybrid=True) is None
    assert not any(response_types.find(text, hybrid=False) for text in hybrid_types)
