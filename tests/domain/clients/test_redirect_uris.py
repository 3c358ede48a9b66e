"""Redirect URIs: registration and matching; attacks 1 to 9."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from identity.domain.clients import redirect_uris
from identity.domain.clients.redirect_uris import EXACT, WILDCARDS, is_authorized, registration_problem

CALLBACK = "https://app.example.com/cb"


@pytest.mark.requirement("contract-authorize-redirect_uri", "oauth-1.6-1")
@pytest.mark.parametrize(
    "url",
    [
        CALLBACK,
        "https://app.example.com:8443/cb?tenant=1&x=",
        "https://app.example.com",
        "http://localhost:9080/callback",
        "http://127.0.0.1/cb",
        "http://[::1]:8080/cb",
        "com.example.app:/oauth2redirect",
        "com.example.app://callback",
        "myapp:callback",
        "https://xn--bcher-kva.example/cb",
        "https://app.example.com/a.b/c..d/%20e",
    ],
)
def test_registered_url_matches_itself(url):
    assert registration_problem(url, EXACT) is None
    assert is_authorized(url, ["https://other.example.com", url], EXACT)
    assert is_authorized(url, [url], WILDCARDS)


def refused(url: str, *registered: str, policy: str = EXACT) -> bool:
    return not is_authorized(url, registered, policy)


@pytest.mark.requirement("attack-1")
@pytest.mark.parametrize(
    "url",
    [
        "https://app.example.com.evil.com/cb",
        "https://app.example.comevil/cb",
        "https://app.example.com/cbx",
        "https://app.example.com/cb/",
        "https://app.example.com/cb?x=1",
        "https://app.example.com/c",
        "https://app.example.com",
        "http://app.example.com/cb",
        "https://app.example.com:443/cb",
        "https://evil.com/https://app.example.com/cb",
        "https://evil.com?https://app.example.com/cb",
        "https://sub.app.example.com/cb",
    ],
)
@pytest.mark.parametrize("policy", [EXACT, WILDCARDS])
def test_attack_1_prefixes_and_other_neighbours_do_not_match(url, policy):
    assert refused(url, CALLBACK, policy=policy)


@pytest.mark.requirement("attack-2", "oauth-1.6-2")
@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:80@evil.com",
        "https://client@evil.com/cb",
        "https://a:b@app.example.com/cb",
        "https://@app.example.com/cb",
    ],
)
def test_attack_2_user_information_is_refused_at_use_and_at_registration(url):
    assert registration_problem(url, EXACT) is not None
    assert registration_problem(url, WILDCARDS) is not None
    assert refused(url, url)


@pytest.mark.requirement("attack-3")
@pytest.mark.parametrize(
    "path",
    [
        "/../cb",
        "/./cb",
        "/x/..",
        "/%2e%2e/cb",
        "/%2E./cb",
        "/.%2e/cb",
        "/x%2fcb",
        "/x%2Fcb",
        "/x%252fcb",
        "/%252e%252e/",
        "/..;/cb",
        "/..;x=y/cb",
        "/x%5ccb",
        "//cb",
        "/cb%00",
    ],
)
def test_attack_3_dot_segments_and_encoded_delimiters_match_nothing(path):
    url = "https://app.example.com" + path
    assert registration_problem(url, EXACT) is not None
    assert refused(url, url, CALLBACK)
    assert refused(url, "https://app.example.com/*", "https://app.example.com/*/*", policy=WILDCARDS)


@pytest.mark.requirement("oauth-1.6-1")
@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://*.example.com", "https://login.example.com"),
        ("https://auth*.example.com", "https://auth2.example.com"),
        ("https://*auth.example.com", "https://my-auth.example.com"),
        ("https://a*z.example.com", "https://abcz.example.com"),
        ("https://*.example.com/cb", "https://LOGIN.Example.com/cb"),
        ("https://app.example.com:*/cb", "https://app.example.com:8443/cb"),
        ("https://example.com/*/par*tial/*", "https://example.com/any/partotial/resource"),
        ("https://app.example.com/cb?tenant=*", "https://app.example.com/cb?tenant=one"),
        ("https://app.example.com/cb?a=*&b=2&c=*", "https://app.example.com/cb?a=1&b=2&c=3"),
    ],
)
def test_wildcard_matches_permitted_uris(pattern, url):
    assert registration_problem(pattern, WILDCARDS) is None
    assert is_authorized(url, [pattern], WILDCARDS)
    assert refused(url, pattern, policy=EXACT), "patterns are skipped under ExactMatch"


@pytest.mark.requirement("attack-4", "oauth-1.6-3")
@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://auth*.example.com", "https://auth.example.com"),
        ("https://*.example.com", "https://a.b.example.com"),
        ("https://*.example.com", "https://.example.com"),
        ("https://*.example.com", "https://evil.com/.example.com"),
        ("https://*.example.com", "https://evil.com?.example.com"),
        ("https://*.example.com", "https://evil.com:1.example.com"),
        ("https://*.example.com", "https://evil@a.example.com"),
        ("https://*.example.com", "https://evil.com#.example.com"),
        ("https://*.example.com", "http://a.example.com"),
        ("https://example.com/path/*", "https://example.com/path/resource?foo=bar"),
        ("https://example.com/path/*", "https://example.com/path/"),
        ("https://example.com/path/*", "https://example.com/path/a/b"),
        ("https://example.com/path/*", "https://example.com/path/.."),
        ("https://example.com/path/*", "https://example.com/path/%2e%2e"),
        ("https://app.example.com:*/cb", "https://app.example.com:/cb"),
        ("https://app.example.com:*/cb", "https://app.example.com:80@evil.com/cb"),
        ("https://app.example.com:*/cb", "https://app.example.com:x/cb"),
        ("https://app.example.com/cb?a=*", "https://app.example.com/cb?a="),
        ("https://app.example.com/cb?a=*", "https://app.example.com/cb?a=1&b=2"),
        ("https://app.example.com/cb?a=*&b=2", "https://app.example.com/cb?b=2&a=1"),
        ("https://app.example.com/cb?a=*", "https://app.example.com/cb"),
        ("https://app.example.com/*", "https://app.example.com/*"),
    ],
)
def test_attack_4_wildcard_never_crosses_a_delimiter(pattern, url):
    assert refused(url, pattern, policy=WILDCARDS)


@pytest.mark.requirement("attack-4", "oauth-1.6-3")
@pytest.mark.parametrize(
    "pattern",
    [
        "https://*.com",
        "https://*",
        "https://auth.*.com",
        "https://*mid*.example.com",
        "https://*.168.1.1",
        "https://example.com:4*",
        "https://example.com/?foo=par*tial",
        "https://example.com/?*=x",
        "https://example.com/a**b",
        "https://example.com/*a*",
        "*://example.com/cb",
        "ht*ps://example.com/cb",
        "https://user*@example.com/cb",
        "https://[::*]/cb",
        "myapp://*/cb",
    ],
)
def test_attack_4_wildcard_in_a_wrong_place_cannot_be_registered(pattern):
    assert registration_problem(pattern, WILDCARDS) is not None
    assert refused(pattern.replace("*", "a"), pattern, policy=WILDCARDS)


@pytest.mark.requirement("attack-5")
@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://foo.example.com/cb", "https://fooaexample.com/cb"),
        ("https://*.example.com/a.b", "https://x.exampleacom/a.b"),
        ("https://*.example.com/a.b", "https://x.example.com/axb"),
        ("https://*.example.com/a+b", "https://x.example.com/aab"),
        ("https://*.example.com/(a|b)", "https://x.example.com/a"),
        ("https://*.example.com/cb?x=.", "https://x.example.com/cb?x=1"),
    ],
)
def test_attack_5_a_dot_is_a_dot(pattern, url):
    assert refused(url, pattern, policy=WILDCARDS)


@pytest.mark.requirement("attack-6")
def test_attack_6_host_is_case_insensitive_and_path_is_not():
    assert is_authorized("HTTPS://APP.Example.com/cb", [CALLBACK], EXACT)
    assert refused("https://app.example.com/CB", CALLBACK)
    assert refused("https://app.example.com/cb?X=1", "https://app.example.com/cb?x=1")
    assert refused("COM.example.app:/cb", "com.example.app:/cb")


@pytest.mark.requirement("attack-7", "oauth-1.6-4")
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
@pytest.mark.parametrize("registered_port", ["", ":8080"])
@pytest.mark.parametrize("port", ["", ":1", ":51004", ":65535"])
def test_attack_7_only_the_port_of_a_loopback_address_may_vary(host, registered_port, port):
    registered = f"http://{host}{registered_port}/cb?x=1"
    assert is_authorized(f"http://{host}{port}/cb?x=1", [registered], EXACT)
    assert refused(f"http://{host}{port}/cb", registered)
    assert refused(f"http://{host}{port}/other?x=1", registered)
    assert refused(f"https://{host}{port}/cb?x=1", registered)


@pytest.mark.requirement("attack-7")
@pytest.mark.parametrize(
    ("url", "registered"),
    [
        ("http://localhost:8081/cb", "http://localhost:8080/cb"),
        ("http://localhost-evil:8080/cb", "http://localhost:8080/cb"),
        ("http://127.0.0.1.evil.com/cb", "http://127.0.0.1/cb"),
        ("http://127.0.0.1:80@evil.com/cb", "http://127.0.0.1/cb"),
        ("http://127.0.0.1:8x/cb", "http://127.0.0.1/cb"),
        ("http://127.0.0.2:80/cb", "http://127.0.0.1/cb"),
        ("http://[::1]:80/cb", "http://127.0.0.1/cb"),
        ("https://127.0.0.1:81/cb", "https://127.0.0.1:80/cb"),
        ("http://[::1%25eth0]:80/cb", "http://[::1]/cb"),
    ],
)
def test_attack_7_nothing_else_counts_as_loopback(url, registered):
    assert refused(url, registered)


@pytest.mark.requirement("attack-8", "oauth-1.6-2")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JavaScript://app.example.com/%0aalert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "blob:https://a/b",
        "about:blank",
    ],
)
def test_attack_8_active_schemes_are_refused_at_registration_and_at_use(url):
    for policy in (EXACT, WILDCARDS):
        assert registration_problem(url, policy) is not None
        assert refused(url, url, policy=policy)


@pytest.mark.requirement("attack-9")
@pytest.mark.parametrize(
    "url",
    [
        "https://app.example.com/cb#fragment",
        "https://app.example.com/cb#",
        "https://app.example.com\\@evil.com/cb",
        "https:\\\\evil.com",
        "https://app.example.com/c\tb",
        "https://app.example.com/cb\r\nLocation: x",
        "https://app.example.com/cb\n",
        " https://app.example.com/cb",
        "https://app.example.com/cb\0",
        "//evil.com",
        "/\\evil.com",
        "/cb",
        "cb",
        "",
        "https:app.example.com/cb",
        "https:/app.example.com/cb",
        "https:///cb",
        "https://",
        "https://app.example.com./cb",
        "https://[fe80::1%25eth0]/cb",
        "https://[fe80::1%eth0]/cb",
        "https://[::1/cb",
        "https://\u0430pp.example.com/cb",
        "https://app。example.com/cb",
        "https://app.example.com%2eevil.com/cb",
        "https://app.example.com%00.evil.com/cb",
        "https://app.example.com:80:80/cb",
        "https://app.example.com:٣/cb",
        'https://app.example.com/"onload=x',
        "https://app.example.com/<script>",
        "https://app.example.com/" + "x" * 2048,
    ],
)
def test_attack_9_fragments_controls_and_lookalikes_are_refused(url):
    assert registration_problem(url, EXACT) is not None
    assert refused(url, url, CALLBACK)
    assert refused(url, url, "https://*.example.com/cb", "https://app.example.com/*", policy=WILDCARDS)


def test_adversarial_patterns_match_in_linear_time():
    pattern = (
        "https://*.example.com/" + "/".join("a*b" for _ in range(30)) + "?" + "&".join(f"p{i}=*" for i in range(30))
    )
    url = "https://x.example.com/" + "/".join("a" * 60 for _ in range(30))
    assert registration_problem(pattern, WILDCARDS) is None
    assert refused(url, pattern, policy=WILDCARDS)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (CALLBACK, f"{CALLBACK}?code=a%20b&state=%26%3D%23"),
        (f"{CALLBACK}?x=1", f"{CALLBACK}?x=1&code=a%20b&state=%26%3D%23"),
        (f"{CALLBACK}?", f"{CALLBACK}?code=a%20b&state=%26%3D%23"),
        ("com.example.app:/cb", "com.example.app:/cb?code=a%20b&state=%26%3D%23"),
        ("myapp:cb?x", "myapp:cb?x&code=a%20b&state=%26%3D%23"),
    ],
)
def test_parameters_are_appended_to_an_existing_query(url, expected):
    assert redirect_uris.with_query(url, {"code": "a b", "state": "&=#"}) == expected
    assert redirect_uris.with_query(url, {}) == url


def test_state_of_every_character_comes_back_unchanged():
    state = "".join(chr(code) for code in range(32, 127)) + "ü€" + "-._~" * 32
    url = redirect_uris.with_query(CALLBACK, {"state": state})
    assert parse_qsl(urlsplit(url).query) == [("state", state)]
    assert re.fullmatch(r"[\x21-\x7e]+", url)


def test_fragment_response_has_no_query():
    assert redirect_uris.with_fragment(f"{CALLBACK}?x=1", {"access_token": "a.b", "state": "#"}) == (
        f"{CALLBACK}?x=1#access_token=a.b&state=%23"
    )


@pytest.mark.parametrize("url", ["app://[x", "app://x]/cb", "app://[x]/cb"])
def test_unparsable_url_is_rejected(url):
    assert registration_problem(url, EXACT) is not None
    assert not is_authorized(url, [url], EXACT)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.0.0.256", "1.2.3.4.5", "0x"])
def test_address_in_another_notation_is_neither_registered_nor_matched(host):
    for url in (f"https://{host}/", f"http://{host}:8080/callback"):
        assert redirect_uris.registration_problem(url, redirect_uris.EXACT) is not None
        assert not redirect_uris.is_authorized(url, [url], redirect_uris.EXACT)
    assert redirect_uris.registration_problem("https://127.0.0.1/", redirect_uris.EXACT) is None
    assert redirect_uris.registration_problem("https://1.example2/", redirect_uris.EXACT) is None
