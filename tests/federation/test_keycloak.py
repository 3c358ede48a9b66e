"""Keycloak as the identity provider: algorithms, rotation of keys, prompts and logout.

Runs on request, with KEYCLOAK=1: the distribution (160 MB) comes from Maven, and its start takes a minute. KEYCLOAK may
also be the URL of a running instance, whose administrator is that of ADMIN.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.cookiejar
import os
import signal
import socket
import subprocess
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import plain_http, relying_party
from tests.federation.conftest import Scenario
from tests.federation.hosted import CALLBACK
from tests.federation.interoperability import LOGOUT_CALLBACK, SECRET, Journey, walk
from tests.relying_party import PASSWORD

VERSION = "26.4.0"
FOLDER = Path(__file__).resolve().parent.parent.parent / "build" / "keycloak"
ADMIN = {"username": "admin", "password": "admin of this test"}
ALGORITHMS = ["RS256", "PS256", "ES256", "HS256"]
STARTED = b"Listening on:"

pytestmark = [
    pytest.mark.skipif("KEYCLOAK" not in os.environ, reason="runs on request, with KEYCLOAK=1"),
    pytest.mark.timeout(600),
]


def realm(base_url: str) -> dict[str, Any]:
    """The realm that Keycloak imports: a user, and a client for each algorithm."""
    clients = [
        {
            "clientId": algorithm,
            "secret": SECRET,
            "redirectUris": [f"{base_url}{CALLBACK}"],
            "standardFlowEnabled": True,
            "attributes": {
                "id.token.signed.response.alg": algorithm,
                "post.logout.redirect.uris": f"{base_url}{LOGOUT_CALLBACK}",
                **({"user.info.response.signature.alg": algorithm} if algorithm in {"PS256", "ES256"} else {}),
            },
        }
        for algorithm in ALGORITHMS
    ]
    credentials = [{"type": "password", "value": PASSWORD}]
    user = {"username": "ada", "email": "ada@example.com", "emailVerified": True, "enabled": True}
    user |= {"firstName": "Ada", "lastName": "Lovelace", "credentials": credentials}
    return {"realm": "test", "enabled": True, "sslRequired": "none", "clients": clients, "users": [user]}


def unpacked() -> Path:
    """The distribution, which Maven downloads once."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    archive = FOLDER / f"keycloak-quarkus-dist-{VERSION}.zip"
    if not archive.exists():
        artifact = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        command = ["mvn", "-B", "-q", plugin, f"-Dartifact={artifact}", f"-DoutputDirectory={FOLDER}"]
        subprocess.run(command, cwd=FOLDER, check=True)
    home = FOLDER / f"keycloak-{VERSION}"
    if not home.exists():
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(FOLDER)
    return home


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[str]:
    """The base URL of a Keycloak that ends with the tests."""
    home = await asyncio.to_thread(unpacked)
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    variables = {"KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN["username"], "KC_BOOTSTRAP_ADMIN_PASSWORD": ADMIN["password"]}
    process = await asyncio.create_subprocess_exec(
        "sh", home / "bin" / "kc.sh", "start-dev", f"--http-port={port}", "--http-host=127.0.0.1",
        "--db=dev-mem", f"--hostname=http://127.0.0.1:{port}",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env={**os.environ, **variables},
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [b""]
    try:
        async with asyncio.timeout(360):
            while STARTED not in lines[-1]:
                lines.append(await process.stdout.readline())
                assert lines[-1], b"".join(lines).decode()
        drain = asyncio.create_task(process.stdout.read())
        yield f"http://127.0.0.1:{port}"
        drain.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


@pytest.fixture(scope="module")
async def keycloak(service: Any) -> AsyncIterator[str]:
    """The base URL of a running Keycloak with the realm of the test."""
    given = os.environ["KEYCLOAK"]
    async with running() if given == "1" else contextlib.nullcontext(given) as base_url:
        async with administrator(base_url) as client:
            await client.delete("/admin/realms/test")
            answer = await client.post("/admin/realms", json=realm(service.base_url))
            assert answer.status_code == 201, answer.text
        yield base_url


@contextlib.asynccontextmanager
async def administrator(base_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the administration API."""
    async with plain_http.client(base_url, timeout=60) as client:
        form = {"grant_type": "password", "client_id": "admin-cli", **ADMIN}
        answer = await client.post("/realms/master/protocol/openid-connect/token", data=form)
        client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        yield client


def fill(_answer: httpx.Response, fields: dict[str, Any]) -> dict[str, Any]:
    """Fill in the login form."""
    return {**fields, "username": "ada", "password": PASSWORD}


@pytest.fixture
async def journey(
    tenant: Any, api: Any, tenant_api: Any, http: Any, browser: Any, keycloak: str
) -> AsyncIterator[Journey]:
    party = await relying_party.make(api, tenant=tenant)
    scenario = Scenario(tenant, party.application, tenant_api, http)
    async with plain_http.client(keycloak, timeout=60) as there:
        there.cookies.jar.set_policy(BrowserCookies())
        yield Journey(party, scenario, browser, there, fill)


class BrowserCookies(http.cookiejar.DefaultCookiePolicy):
    """Cookies with Secure are sent to this machine without TLS, as by browsers."""

    def __init__(self) -> None:
        super().__init__(secure_protocols=("http", "https"))

    def set_ok(self, cookie: http.cookiejar.Cookie, request: Any) -> bool:
        cookie.secure = False  # a request of httpx has the usual policy
        return super().set_ok(cookie, request)


async def rotate(base_url: str, algorithm: str) -> None:
    """Add a key that takes precedence over the others of its algorithm."""
    async with administrator(base_url) as client:
        kind, settings = (
            ("ecdsa-generated", {"ecdsaEllipticCurveKey": ["P-256"]})
            if algorithm == "ES256"
            else ("rsa-generated", {"algorithm": [algorithm], "keySize": ["2048"]})
        )
        component = {
            "name": f"newer {algorithm}",
            "providerId": kind,
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {"priority": ["1000"], "enabled": ["true"], "active": ["true"], **settings},
        }
        answer = await client.post("/admin/realms/test/components", json=component)
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256"])
async def test_login_prompt_rotation_and_logout_at_keycloak(journey, keycloak, algorithm) -> None:
    await walk(journey, f"{keycloak}/realms/test", algorithm, lambda: rotate(keycloak, algorithm))


async def test_hmac_of_keycloak_is_refused(journey, keycloak) -> None:
    """Keycloak signs with a secret of the realm, which no client has (OpenID Connect Core 10.1)."""
    await journey.configure(f"{keycloak}/realms/test", "HS256")
    left = await journey.rp.authorize(journey.browser, idp_hint=journey.scenario.provider["id"], scope="openid")
    shown = await journey.browser.get(await journey.follow(left.headers["Location"]))
    assert shown.status_code == 200
    found = await journey.rp.api.get("/api/system/event-log/search", params={"message": "*signed response is invalid*"})
    assert journey.scenario.provider["id"] in found.text
