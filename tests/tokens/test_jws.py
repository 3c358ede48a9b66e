"""Signatures: verified by independent libraries, and rejected when not our own."""

from __future__ import annotations

import base64
import hmac
import json
import tracemalloc
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from joserfc import jws as other_jws
from joserfc.jwk import JWKRegistry, OctKey

from identity.ids import base64url, unbase64url
from identity.tokens import jwks, jws, keys
from identity.tokens.jws import Rejection, VerifiedJwt
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS, KeyRing, from_client_secret, parse
from tests.builders import NOW

EVIL = "https://evil.example.com"
CLAIMS = {
    "iss": "https://id.example.com",
    "sub": "someone",
    "aud": "client",
    "exp": 2_000_000_000,
    "iat": 1_700_000_000,
}
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "HS256", "HS384", "HS512", "Ed25519")


async def make(algorithm: str):
    length = {"length": 2048} if algorithm.startswith("RS") else {}
    made = await keys.generate({"algorithm": algorithm, **length}, "https://id.example.com", NOW)
    return {"id": f"id-{algorithm}", "lastUpdateInstant": NOW, **made}


@pytest.fixture(scope="module")
async def documents():
    return {algorithm: await make(algorithm) for algorithm in ALGORITHMS}


@pytest.fixture(scope="module")
def key_ring(documents):
    return {document["kid"]: parse(document) for document in documents.values()}


class Asked:
    """Finds keys by kid and records the lookups."""

    def __init__(self, key_ring):
        self.key_ring = key_ring
        self.kids = []

    async def __call__(self, kid, claims):
        self.kids.append(kid)
        return self.key_ring.get(kid)


@pytest.fixture
def find(key_ring):
    return Asked(key_ring)


@pytest.fixture
def key_of(documents, key_ring):
    return lambda algorithm: key_ring[documents[algorithm]["kid"]]


def encoded(value: object) -> str:
    return base64url(value if isinstance(value, bytes) else json.dumps(value).encode())


def signed(key, header: object, claims: object) -> str:
    """A token with arbitrary header and claims and a valid signature by one of our keys."""
    signing_input = f"{encoded(header)}.{encoded(claims)}"
    return f"{signing_input}.{base64url(key.signer.sign(signing_input.encode()))}"


def header_of(key, **members):
    return {"alg": key.algorithm, "typ": "JWT", "kid": key.kid, **members}


@pytest.mark.requirement("service-17")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_token_is_verified_by_us_and_by_an_independent_library(algorithm, documents, key_of, find):
    document = documents[algorithm]
    token = await jws.sign(key_of(algorithm), CLAIMS, {"gty": ["authorization_code"]})
    verified = await jws.verify(token, find)
    assert isinstance(verified, VerifiedJwt)
    assert verified.claims == CLAIMS
    assert verified.header == {"alg": algorithm, "typ": "JWT", "kid": document["kid"], "gty": ["authorization_code"]}
    registry = other_jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    other = (
        OctKey.import_key(document["secret"]) if "secret" in document else JWKRegistry.import_key(jwks.to_jwk(document))
    )
    assert json.loads(other_jws.deserialize_compact(token, other, registry=registry).payload) == CLAIMS


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_changed_signature_is_refused(algorithm, key_of, find):
    token = await jws.sign(key_of(algorithm), CLAIMS)
    head, claims, signature = token.split(".")
    changed = encoded({**CLAIMS, "sub": "someone else"})
    octets = unbase64url(signature)
    assert await jws.verify(f"{head}.{changed}.{signature}", find) is Rejection.INVALID
    for other in (bytes([octets[0] ^ 1]) + octets[1:], octets[:-1], octets + b"\0", b"\0" * len(octets), b""):
        assert await jws.verify(f"{head}.{claims}.{base64url(other)}", find) is Rejection.INVALID


@pytest.mark.requirement("design-core-5")
async def test_header_cannot_replace_what_the_key_decides(key_of, find):
    key = key_of("ES256")
    verified = await jws.verify(await jws.sign(key, CLAIMS, {"alg": "none", "kid": "other", "typ": "x"}), find)
    assert verified.header == header_of(key)


async def test_key_without_private_half_does_not_sign(documents):
    public = {name: value for name, value in documents["ES256"].items() if name != "privateKey"}
    with pytest.raises(ValueError, match="no private half"):
        await jws.sign(parse(public), CLAIMS)


async def test_client_secret_signs_but_is_never_found_by_a_kid(find):
    key_id = next(key_id for key_id, algorithm in CLIENT_SECRET_KEYS.items() if algorithm == "HS256")
    token = await jws.sign(from_client_secret(key_id, "s" * 43), CLAIMS)
    assert json.loads(other_jws.deserialize_compact(token, OctKey.import_key("s" * 43)).payload) == CLAIMS
    assert await jws.verify(token, find) is Rejection.INVALID
    assert find.kids == []


def test_secrets_are_masked_in_repr(documents):
    for document in documents.values():
        text = repr(parse(document))
        assert document["algorithm"] in text
        assert "PRIVATE" not in text and document.get("secret", "-----") not in text


async def test_ring_parses_again_only_when_the_document_changed(documents):
    asked = []

    async def find_document(key_id):
        asked.append(key_id)
        return documents.get(key_id)

    key_ring = KeyRing(find_document, size=2)
    first = key_ring.parsed(documents["ES256"])
    assert key_ring.parsed(documents["ES256"]) is first
    assert key_ring.parsed({**documents["ES256"], "lastUpdateInstant": NOW + 1}) is not first
    assert await key_ring.get("nowhere") is None
    assert asked == ["nowhere"]
    again = key_ring.parsed(documents["HS256"])
    for algorithm in ("ES384", "ES512"):
        key_ring.parsed(documents[algorithm])
    assert key_ring.parsed(documents["HS256"]) is not again, "the ring is bounded"
    assert key_ring.parsed({"id": "x", "lastUpdateInstant": 1, "type": "Secret", "algorithm": "None"}) is None


@pytest.mark.requirement("attack-33")
@pytest.mark.parametrize("name", ["none", "None", "NONE", "NoNe", "nOnE", "", None, 0, ["RS256"], "none "])
async def test_attack_33_alg_none_in_any_spelling_is_refused(name, key_of, find):
    kid = key_of("RS256").kid
    for signature in ("", base64url(b"\0" * 256)):
        token = f"{encoded({'alg': name, 'kid': kid})}.{encoded(CLAIMS)}.{signature}"
        assert await jws.verify(token, find) is Rejection.INVALID


@pytest.mark.requirement("attack-34")
@pytest.mark.parametrize("digest", ["sha256", "sha384", "sha512"])
@pytest.mark.parametrize("victim", ["RS256", "ES256"])
@pytest.mark.parametrize(
    "form", ["pem", "pem and line feed", "der", "raw", "openssh", "certificate", "certificate der", "jwk", "jwk set"]
)
async def test_attack_34_public_key_in_any_form_is_not_used_as_hmac_secret(
    form, victim, digest, documents, key_of, find
):
    document = documents[victim]
    public = load_pem_public_key(document["publicKey"].encode())
    certificate = document["certificate"].encode()
    secret = {
        "pem": document["publicKey"].encode,
        "pem and line feed": lambda: document["publicKey"].encode() + b"\n",
        "der": lambda: public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "raw": lambda: unbase64url(jwks.to_jwk(document)["n" if victim == "RS256" else "x"]),
        "openssh": lambda: public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        "certificate": lambda: certificate,
        "certificate der": lambda: base64.b64decode(jwks.to_jwk(document)["x5c"][0]),
        "jwk": lambda: json.dumps(jwks.to_jwk(document)).encode(),
        "jwk set": lambda: json.dumps(jwks.to_jwk_set([document])).encode(),
    }[form]()
    algorithm = {"sha256": "HS256", "sha384": "HS384", "sha512": "HS512"}[digest]
    signing_input = f"{encoded(header_of(key_of(victim), alg=algorithm))}.{encoded(CLAIMS)}"
    forged = f"{signing_input}.{base64url(hmac.digest(secret, signing_input.encode(), digest))}"
    assert await jws.verify(forged, find) is Rejection.INVALID


@pytest.mark.requirement("attack-34", "design-core-5", "oauth-2.10-16")
@pytest.mark.parametrize("mine", ALGORITHMS)
@pytest.mark.parametrize(
    "claimed", ["RS256", "RS512", "ES256", "ES512", "HS256", "HS512", "PS256", "EdDSA", "Ed25519", "rs256"]
)
async def test_attack_34_the_key_decides_the_algorithm(mine, claimed, key_of, find):
    key = key_of(mine)
    expected = VerifiedJwt if claimed == mine else Rejection
    assert isinstance(await jws.verify(signed(key, header_of(key, alg=claimed), CLAIMS), find), expected)


@pytest.mark.requirement("attack-35")
@pytest.mark.parametrize(
    "kid",
    [
        "../../etc/passwd",
        "' OR 1=1 --",
        "x\0y",
        f"{EVIL}/jwks.json",
        "k" * 10_000,
        {"$ne": None},
        None,
        7,
        ["a"],
        "",
    ],
)
async def test_attack_35_a_kid_is_one_look_up_and_nothing_more(kid, key_of, find):
    key = key_of("ES256")
    assert await jws.verify(signed(key, header_of(key, kid=kid), CLAIMS), find) is Rejection.INVALID
    assert len(find.kids) <= 1
    assert all(isinstance(asked, str) and len(asked) <= 191 for asked in find.kids)


@pytest.mark.requirement("attack-35")
async def test_attack_35_keys_inside_the_token_are_ignored(documents, key_of, find):
    mine, theirs = key_of("RS256"), parse(await make("RS256"))
    their_jwk = jwks.to_jwk(await make("RS256"))
    offers = {
        "jwk": their_jwk,
        "jku": f"{EVIL}/jwks.json",
        "x5u": f"{EVIL}/c.pem",
        "x5c": ["AAAA"],
    }
    forged = signed(theirs, header_of(mine, **offers), CLAIMS)
    assert await jws.verify(forged, find) is Rejection.INVALID
    genuine = signed(mine, header_of(mine, **offers), CLAIMS)
    assert isinstance(await jws.verify(genuine, find), VerifiedJwt)
    assert find.kids == [mine.kid, mine.kid]


@pytest.mark.requirement("attack-36")
@pytest.mark.parametrize(
    "members",
    [
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": ["b64"], "b64": True},
        {"b64": False},
        {"b64": False, "crit": ["b64"]},
        {"crit": "x"},
    ],
)
async def test_attack_36_critical_extensions_are_refused(members, key_of, find):
    key = key_of("ES256")
    assert await jws.verify(signed(key, header_of(key, **members), CLAIMS), find) is Rejection.INVALID


def deep(levels: int) -> bytes:
    return b'{"a":' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.requirement("attack-37")
@pytest.mark.parametrize(
    "make_token",
    [
        lambda: "a" * 1_000_000 + ".e30.AA",
        lambda: f"{encoded({'alg': 'ES256', 'kid': 'k' * 1_000_000})}.{encoded({})}.AAAA",
        lambda: "." * 1_000_000,
        lambda: "e30." + "A" * 5_000_000 + ".AAAA",
        lambda: "a.b.c.d.e",
        lambda: f"{encoded({'alg': 'PBES2-HS256+A128KW', 'enc': 'A128GCM', 'p2c': 10**9, 'p2s': 'AA'})}.AA.AA.AA.AA",
        lambda: f"{encoded(deep(5_000))}.e30.AAAA",
        lambda: f"e30.{encoded(deep(5_000))}.AAAA",
        lambda: f"e30.{encoded(deep(1_000_000))}.AAAA",
        lambda: f"e30.{encoded(b'{' + b',' * 10_000)}.AAAA",
        lambda: f"e30.{encoded(b'[' + b'9' * 10_000 + b']')}.AAAA",
        lambda: f"{encoded(b'[' * 12_000)}.e30.AAAA",
        lambda: f"{encoded(bytes([34]) * 12_000)}.e30.AAAA",
        lambda: f"{encoded(b'x' + bytes([34]) + bytes([92, 34]) * 5_000)}.e30.AAAA",
    ],
)
async def test_attack_37_oversized_and_deep_tokens_are_refused_before_they_are_decoded(make_token, find):
    token = make_token()
    tracemalloc.start()
    outcome = await jws.verify(token, find)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outcome is Rejection.MALFORMED
    assert find.kids == []
    assert peak < 1_000_000


@pytest.mark.requirement("attack-37")
async def test_attack_37_claims_nested_too_deeply_are_refused_though_signed(key_of, find):
    key = key_of("ES256")
    assert isinstance(await jws.verify(signed(key, header_of(key), deep(30)), find), VerifiedJwt)
    assert await jws.verify(signed(key, header_of(key), deep(40)), find) is Rejection.MALFORMED


async def test_brackets_in_texts_are_not_nesting(key_of, find):
    token = await jws.sign(key_of("ES256"), {**CLAIMS, "note": '[{"\\' * 100})
    assert isinstance(await jws.verify(token, find), VerifiedJwt)


@pytest.mark.requirement("attack-38")
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda part: part + "=",
        lambda part: part + "==",
        lambda part: part + " ",
        lambda part: " " + part,
        lambda part: part + "\n",
        lambda part: part[:4] + "\r\n" + part[4:],
        lambda part: part[:4] + "+" + part[5:],
        lambda part: part[:4] + "/" + part[5:],
        lambda part: part[:4] + "é" + part[5:],
        lambda part: part + "A" if len(part) % 4 == 0 else part[: len(part) - len(part) % 4 + 1],
    ],
)
async def test_attack_38_base64url_must_be_canonical(place, spoil, key_of, find):
    parts = (await jws.sign(key_of("ES256"), CLAIMS)).split(".")
    parts[place] = spoil(parts[place])
    assert isinstance(await jws.verify(".".join(parts), find), Rejection)


async def test_attack_38_unused_bits_must_be_zero(key_of, find):
    """The last character of a 64-byte signature carries four bits that decode to nothing."""
    token = await jws.sign(key_of("ES256"), CLAIMS)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = token[:-1] + alphabet[alphabet.index(token[-1]) + 1]
    assert base64.urlsafe_b64decode(twin.split(".")[2] + "==") == base64.urlsafe_b64decode(token.split(".")[2] + "==")
    assert await jws.verify(twin, find) is Rejection.MALFORMED


@pytest.mark.requirement("attack-38")
@pytest.mark.parametrize(
    "claims",
    [
        b'{"sub":"a","sub":"b"}',
        b'{"a":{"b":1,"b":2}}',
        b'{"exp":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"sub":"\xff"}',
        b'\xef\xbb\xbf{"sub":"a"}',
        b"[]",
        b"null",
        b'"text"',
        b"",
        b"{} {}",
        b"{'sub':'a'}",
    ],
)
async def test_attack_38_claims_must_be_strict_json(claims, key_of, find):
    key = key_of("ES256")
    assert await jws.verify(signed(key, header_of(key), claims), find) is Rejection.MALFORMED


@pytest.mark.requirement("attack-38")
@pytest.mark.parametrize("name", ["exp", "iat", "nbf", "auth_time"])
@pytest.mark.parametrize("value", ["2000000000", 2_000_000_000.5, 2e9, -1, 2**63, 10**30, True, None, [], {}])
async def test_attack_38_times_must_be_plausible_whole_seconds(name, value, key_of, find):
    key = key_of("ES256")
    assert await jws.verify(signed(key, header_of(key), {**CLAIMS, name: value}), find) is Rejection.MALFORMED


@pytest.mark.requirement("attack-38")
@pytest.mark.parametrize(
    "members",
    [
        {"aud": ["client", 7]},
        {"aud": [None]},
        {"aud": {"$ne": ""}},
        {"aud": 7},
        {"sub": 7},
        {"iss": ["x"]},
        {"jti": None},
        {"sid": {}},
    ],
)
async def test_attack_38_names_must_be_texts(members, key_of, find):
    key = key_of("ES256")
    assert await jws.verify(signed(key, header_of(key), {**CLAIMS, **members}), find) is Rejection.MALFORMED


async def test_repeated_header_members_are_refused(key_of, find):
    key = key_of("ES256")
    header = f'{{"alg":"ES256","kid":"{key.kid}","alg":"none"}}'.encode()
    assert await jws.verify(signed(key, header, CLAIMS), find) is Rejection.MALFORMED


@pytest.mark.parametrize("token", ["", ".", "..", "...", "a.b", "nonsense", "\0", "é.é.é", "e30.e30", "e30..", "..AA"])
async def test_invalid_text_is_malformed(token, find):
    assert await jws.verify(token, find) is Rejection.MALFORMED
    assert find.kids == []


@pytest.mark.parametrize(
    ("claims", "outcome"),
    [
        ({"exp": 1001}, None),
        ({"exp": 1000}, Rejection.EXPIRED),
        ({}, Rejection.EXPIRED),
        ({"exp": 2000, "nbf": 1000}, None),
        ({"exp": 2000, "nbf": 1001}, Rejection.NOT_YET_VALID),
    ],
)
def test_times_are_checked_without_leeway(claims, outcome):
    assert jws.check_times(claims, 1000) is outcome


def verifier_of(jwk) -> Any:
    pem = JWKRegistry.import_key(jwk).as_pem(private=False).decode()
    return parse({"id": "a", "kid": "a", "type": jwk["kty"], "algorithm": jwk["alg"], "publicKey": pem})


def test_signature_of_rfc_7515_appendix_a_3_is_verified():
    key = verifier_of(
        {
            "kty": "EC",
            "alg": "ES256",
            "crv": "P-256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        }
    )
    signing_input = (
        b"eyJhbGciOiJFUzI1NiJ9"
        b".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    )
    signature = unbase64url("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q")
    assert key.has_signed(signing_input, signature)
    assert not key.has_signed(signing_input + b"A", signature)
    assert not key.has_signed(signing_input, b"\0" * 64), "the zero signature proves nothing (CVE-2022-21449)"


def test_signature_of_rfc_8037_appendix_a_4_is_verified():
    key = verifier_of(
        {"kty": "OKP", "alg": "Ed25519", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    )
    signing_input = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
    signature = unbase64url("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg")
    assert key.has_signed(signing_input, signature)
    assert not key.has_signed(signing_input + b"A", signature)
