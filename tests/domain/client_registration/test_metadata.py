"""What clients may register (RFC 7591 section 5): redirect URIs, URLs that users see, names, grants and scopes."""

from __future__ import annotations

import pytest

from identity.domain.client_registration.metadata import (
    comparable_name,
    redirect_uri_problem,
    require_valid,
    to_oauth_configuration,
)
from identity.errors import InvalidClientMetadata, InvalidRedirectUri

GRANTS, SCOPES = ("authorization_code", "refresh_token"), ("openid", "email")


def metadata(**changes):
    usual = {
        "application_type": "web",
        "grant_types": ["authorization_code"],
        "post_logout_redirect_uris": [],
        "redirect_uris": ["https://app.example.com/callback"],
        "response_types": ["code"],
        "scope": "openid",
    }
    return {**usual, **changes}


@pytest.mark.requirement("oauth-12-41")
@pytest.mark.parametrize(("uri", "application_type", "is_allowed"), [
    ("https://app.example.com/callback", "web", True),
    ("https://app.example.com/callback?a=b", "web", True),
    ("https://app.example.com/callback#part", "web", False),
    ("https://app.example.com/callback#", "web", False),
    ("http://app.example.com/callback", "web", False),
    ("http://localhost/callback", "web", False),
    ("https://localhost/callback", "web", False),
    ("https://127.0.0.1/callback", "web", False),
    ("https://127.8.9.1/callback", "web", False),
    ("https://127.1/callback", "web", False),
    ("https://2130706433/callback", "web", False),
    ("https://0x7f000001/callback", "web", False),
    ("https://0177.0.0.1/callback", "web", False),
    ("https://0.0.0.0/callback", "web", False),
    ("https://0/callback", "web", False),
    ("https://[::]/callback", "web", False),
    ("https://[::1]:8443/callback", "web", False),
    ("https://[::ffff:127.0.0.1]/callback", "web", False),
    ("https://[::ffff:7f00:1]/callback", "web", False),
    ("https://LOCALHOST/callback", "web", False),
    ("https://a.localhost/callback", "web", False),
    ("https://localhost.example.com/callback", "web", True),
    ("https://127.0.0.1.example.com/callback", "web", True),
    ("https://a.localhost/callback", "native", False),
    ("http://127.1/callback", "native", False),
    ("https://*.example.com/callback", "web", False),
    ("https://user@app.example.com/callback", "web", False),
    ("com.example.app:/callback", "web", False),
    ("javascript:alert(1)", "web", False),
    ("data:text/html,x", "web", False),
    ("/callback", "web", False),
    ("", "web", False),
    ("com.example.app:/callback", "native", True),
    ("http://127.0.0.1:8080/callback", "native", True),
    ("http://[::1]/callback", "native", True),
    ("http://localhost:8080/callback", "native", True),
    ("https://app.example.com/callback", "native", True),
    ("http://app.example.com/callback", "native", False),
    ("myapp:/callback", "native", False),
    ("javascript:alert(1)", "native", False),
    ("com.example.app:/callback#part", "native", False),
])  # fmt: skip
def test_redirect_uris_depend_on_the_application_type(uri, application_type, is_allowed):
    assert (redirect_uri_problem(uri, application_type) is None) is is_allowed
    for name in ("redirect_uris", "post_logout_redirect_uris"):
        wanted = metadata(application_type=application_type, **{name: [uri]})
        if is_allowed:
            require_valid(wanted, GRANTS, SCOPES)
        else:
            with pytest.raises(InvalidRedirectUri):
                require_valid(wanted, GRANTS, SCOPES)


@pytest.mark.requirement("oauth-12-41")
def test_code_needs_a_redirect_uri():
    with pytest.raises(InvalidRedirectUri):
        require_valid(metadata(redirect_uris=[]), GRANTS, SCOPES)


@pytest.mark.requirement("oauth-12-41")
@pytest.mark.parametrize("name", ["client_uri", "logo_uri", "policy_uri", "tos_uri"])
@pytest.mark.parametrize(("url", "is_allowed"), [
    ("https://app.example.com/logo.png", True),
    ("https://bank.example.com/logo.png", False),
    ("https://app.example.com.evil.example/logo.png", False),
    ("https://app.example.com@evil.example/logo.png", False),
    ("http://app.example.com/logo.png", False),
    ("javascript:alert(1)", False),
    ("data:image/png;base64,AAAA", False),
])  # fmt: skip
def test_urls_that_users_see_are_on_the_host_of_the_client(name, url, is_allowed):
    if is_allowed:
        require_valid(metadata(**{name: url}), GRANTS, SCOPES)
    else:
        with pytest.raises(InvalidClientMetadata):
            require_valid(metadata(**{name: url}), GRANTS, SCOPES)


@pytest.mark.requirement("oauth-12-41")
@pytest.mark.parametrize("changes", [
    {"grant_types": ["authorization_code", "password"]},
    {"grant_types": ["implicit"], "response_types": ["token id_token"]},
    {"response_types": ["id_token"]},
    {"response_types": ["code token"]},
    {"scope": "openid phone"},
    {"scope": "openid admin"},
    {"subject_type": "pairwise"},
    {"jwks": {"keys": []}, "jwks_uri": "https://app.example.com/keys"},
    {"client_name": "Bank\u202e"},
    {"client_name": "Ba\u200bnk"},
    {"client_name": "Bank\nname"},
])  # fmt: skip
def test_other_metadata_is_bounded(changes):
    with pytest.raises(InvalidClientMetadata):
        require_valid(metadata(**changes), GRANTS, SCOPES)


@pytest.mark.requirement("oauth-12-39")
@pytest.mark.parametrize(("response_type", "is_hybrid"), [
    ("token id_token", False),
    ("id_token token", False),
    ("code id_token", True),
    ("id_token code", True),
    ("token id_token code", True),
])  # fmt: skip
def test_words_of_a_response_type_come_in_any_order(response_type, is_hybrid):
    grant_types = ["authorization_code", "implicit"]
    wanted = metadata(grant_types=grant_types, response_types=[response_type], token_endpoint_auth_method="none")
    require_valid(wanted, grant_types, SCOPES)
    assert to_oauth_configuration(wanted)["hybridResponseTypesEnabled"] is is_hybrid
    with pytest.raises(InvalidClientMetadata):
        require_valid({**wanted, "grant_types": ["authorization_code"]}, grant_types, SCOPES)


@pytest.mark.requirement("oauth-12-41")
@pytest.mark.parametrize("response_type", ["", "code code", "code  token", "none", "code,token"])
def test_other_response_types_are_refused(response_type):
    grant_types = ["authorization_code", "implicit"]
    with pytest.raises(InvalidClientMetadata):
        require_valid(metadata(grant_types=grant_types, response_types=[response_type]), grant_types, SCOPES)


@pytest.mark.requirement("oauth-12-41")
def test_names_that_look_alike_are_equal():
    names = {"Example Bank", "  example  BANK", "\uff25xample Bank"}
    assert len({comparable_name(name) for name in names}) == 1
    assert comparable_name("Example Banks") != comparable_name("Example Bank")


@pytest.mark.requirement("oauth-12-41")
@pytest.mark.parametrize("name", ["client_uri", "logo_uri", "policy_uri", "tos_uri"])
@pytest.mark.parametrize("host", ["127.1", "a.localhost", "0.0.0.0", "[::ffff:127.0.0.1]"])
def test_urls_that_users_see_are_not_on_their_machine(name, host):
    url = f"https://{host}/"
    with pytest.raises(InvalidClientMetadata):
        require_valid(metadata(redirect_uris=[], grant_types=[], response_types=[], **{name: url}), GRANTS, SCOPES)


@pytest.mark.requirement("oauth-12-41")
@pytest.mark.parametrize(("name", "is_allowed"), [
    ("Orders 2", True),
    ("Café ¡Olé! №1", True),
    ("Заказы", True),
    ("受注システム Web", True),
    ("カタカナ ひらがな 漢字", True),
    ("주문 Web", True),
    ("الطلبات", True),
    ("\u0420aypal", False),
    ("G\u043e\u043egle", False),
    ("Google \u0430", False),
    ("\u03bfrders", False),
    ("Orders \u13aa", False),
    ("\uff27\u043e\u043egle", False),
])  # fmt: skip
def test_name_of_letters_of_several_scripts_is_refused(name, is_allowed):
    if is_allowed:
        require_valid(metadata(client_name=name), GRANTS, SCOPES)
    else:
        with pytest.raises(InvalidClientMetadata, match="scripts"):
            require_valid(metadata(client_name=name), GRANTS, SCOPES)
