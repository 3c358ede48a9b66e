"""The nginx configuration of docs/deploy in front of two processes that share external stores."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import getpass
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from identity.store.embedded.stores import EmbeddedStores
from tests import certificates
from tests.operator.processes import ROOT, Process
from tests.ports import free_port

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"
API_KEY = "key-of-the-nginx-tests-0123456789abcdefghijklmnopqrstuvwxyz"
MANAGER_KEY = "key-manager-of-the-nginx-tests-0123456789abcdefghijklmnopqrst"
KICKSTART = {"apiKeys": [{"key": API_KEY}, {"key": MANAGER_KEY, "keyManager": True}], "requests": []}
HOST = "login.example.com"

# What surrounds a file of /etc/nginx/conf.d, with every path below a folder of the test.
FRAME = """
daemon off;
user {user};
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log notice;
events {{ worker_connections 1024; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/identity.conf;
}}
"""


class NamedTransport(httpx.AsyncHTTPTransport):
    """A transport that names a host in the handshake (SNI), by which nginx selects the server."""

    def __init__(self, host: str, **options) -> None:
        super().__init__(**options)
        self.host = host

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["sni_hostname"] = self.host
        return await super().handle_async_request(request)


@dataclasses.dataclass
class Site:
    """nginx and the two processes behind it."""

    folder: Path
    processes: list[Process]
    start: object
    https_port: int
    http_port: int
    trust: ssl.SSLContext

    def client(self, address: str = "127.0.0.1", **options) -> httpx.AsyncClient:
        """A client with this address that resolves the name of the site."""
        transport = httpx.AsyncHTTPTransport(verify=self.trust, local_address=address, **options)
        return httpx.AsyncClient(
            transport=transport,
            base_url=f"https://127.0.0.1:{self.https_port}",
            headers={"Host": f"{HOST}:{self.https_port}"},
            timeout=30,
        )

    def certified(self, certificate: certificates.Certificate | None) -> httpx.AsyncClient:
        """A client of the host for clients with certificates, which presents one in the handshake."""
        context = ssl.create_default_context(cadata=certificates.authority().pem)
        context.check_hostname = False  # the certificate of the test names the address only
        if certificate is not None:
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(certificate.pem + certificate.key_pem)
                file.flush()
                context.load_cert_chain(file.name)
        host = f"mtls.{HOST}"
        return httpx.AsyncClient(
            transport=NamedTransport(host, verify=context, local_address="127.0.0.1"),
            base_url=f"https://127.0.0.1:{self.https_port}",
            headers={"Host": f"{host}:{self.https_port}"},
            timeout=30,
        )


def configuration(folder: Path, ports: list[int], http_port: int, https_port: int) -> None:
    """The documented file with the marked lines filled in, and a frame around it."""
    text = (ROOT / "docs" / "deploy" / "nginx.conf").read_text()
    for documented, actual in (
        ("127.0.0.1:9011", f"127.0.0.1:{ports[0]}"),
        ("127.0.0.1:9012", f"127.0.0.1:{ports[1]}"),
        ("listen 80;", f"listen 127.0.0.1:{http_port};"),
        ("listen 443 ssl", f"listen 127.0.0.1:{https_port} ssl"),
        ("/etc/letsencrypt/live/login.example.com/fullchain.pem", f"{folder}/site.pem"),
        ("/etc/letsencrypt/live/login.example.com/privkey.pem", f"{folder}/site.key"),
    ):
        assert documented in text, documented
        text = text.replace(documented, actual)
    for name in ("http", "server"):
        file = folder / f"identity-{name}.conf"
        documented = (ROOT / "docs" / "deploy" / f"nginx-{name}.conf").read_text()
        file.write_text(documented.replace("/var/log/nginx", str(folder)))
        text = text.replace(f"/etc/nginx/identity-{name}.conf", str(file))
    (folder / "identity.conf").write_text(text)
    (folder / "nginx.conf").write_text(FRAME.format(folder=folder, user=getpass.getuser()))


@pytest.fixture(scope="module")
async def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nginx")
    certificate = certificates.make(HOST, certificates.authority())
    (folder / "site.pem").write_text(certificate.pem)
    (folder / "site.key").write_text(certificate.key_pem)
    (folder / "kickstart.json").write_text(json.dumps(KICKSTART))
    trust = ssl.create_default_context(cadata=certificates.authority().pem)
    stores = await EmbeddedStores.start(folder / "stores", mongodb=True, redis=True)

    def start(port: int) -> Process:
        return Process(
            folder / "var",
            server__port=port,
            mongodb__uri=str(stores.mongodb_uri),
            redis__url=stores.redis_url,
            kickstart__file=folder / "kickstart.json",
            mutual_tls__enabled="true",
        )

    ports = [free_port(), free_port()]
    found = Site(folder, [start(ports[0])], start, free_port(), free_port(), trust)
    configuration(folder, ports, found.http_port, found.https_port)
    try:
        await asyncio.to_thread(found.processes[0].wait_until_ready)
        found.processes.append(start(ports[1]))
        await asyncio.to_thread(found.processes[1].wait_until_ready)
        nginx = subprocess.Popen(
            [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL
        )
        try:
            async with found.client() as client, asyncio.timeout(30):
                while True:
                    with contextlib.suppress(httpx.HTTPError):
                        if (await client.get("/api/health")).status_code == 200:
                            break
                    await asyncio.sleep(0.02)
            yield found
        finally:
            nginx.terminate()
            nginx.wait()
    finally:
        for process in found.processes:
            await asyncio.to_thread(process.stop)
            process.output.close()
        await stores.stop()


async def test_plain_http_is_sent_to_https(site):
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{site.http_port}/oauth2/authorize?a=b", headers={"Host": HOST})
    assert answer.status_code == 308
    assert answer.headers["Location"] == f"https://{HOST}/oauth2/authorize?a=b"


@pytest.mark.requirement("design-config-6", "oauth-4.4-7", "project-14")
async def test_the_base_url_is_the_address_that_the_client_used(site):
    async with site.client() as client:
        discovery = (await client.get("/.well-known/openid-configuration")).json()
        forged = await client.get(
            "/.well-known/openid-configuration",
            headers={"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"},
        )
    assert discovery["token_endpoint"] == f"https://{HOST}:{site.https_port}/oauth2/token"
    assert forged.json() == discovery


@pytest.mark.requirement("attack-55", "design-state-24", "project-14")
async def test_the_client_address_is_the_one_that_nginx_saw_and_cannot_be_forged(site):
    async with site.client() as client:
        client.headers["Authorization"] = API_KEY
        made = await client.post(
            "/api/ip-acl",
            json={
                "ipAccessControlList": {
                    "name": "one address",
                    "entries": [
                        {"startIPAddress": "*", "action": "Block"},
                        {"startIPAddress": "127.0.0.5", "endIPAddress": "127.0.0.5", "action": "Allow"},
                    ],
                }
            },
        )
        assert made.status_code == 200, made.text
        acl = made.json()["ipAccessControlList"]["id"]
        client.headers["Authorization"] = MANAGER_KEY
        key = await client.post("/api/api-key", json={"apiKey": {"ipAccessControlListId": acl}})
        assert key.status_code == 200, key.text
        restricted = key.json()["apiKey"]["key"]
    expectations = [
        ("127.0.0.5", {}, 200),
        ("127.0.0.6", {}, 401),
        ("127.0.0.6", {"X-Forwarded-For": "127.0.0.5"}, 401),
        ("127.0.0.6", {"X-Real-IP": "127.0.0.5", "Forwarded": "for=127.0.0.5"}, 401),
        ("127.0.0.5", {"X-Forwarded-For": "127.0.0.6, 127.0.0.1"}, 200),
    ]
    for address, headers, status in expectations:
        async with site.client(address) as client:
            answer = await client.get("/api/tenant", headers={"Authorization": restricted, **headers})
            assert answer.status_code == status, (address, headers)


@pytest.mark.requirement("project-14")
@pytest.mark.parametrize("kind", ["query", "cookie", "header"])
async def test_large_requests_pass(site, kind):
    large = "x" * 28_000
    options = {
        "query": {"params": {"state": large}},
        "cookie": {"headers": {"Cookie": f"a={large}"}},
        "header": {"headers": {"X-Large": large}},
    }[kind]
    async with site.client() as client:
        through = await client.get("/.well-known/openid-configuration", **options)
    assert through.status_code == 200


async def test_a_body_of_a_megabyte_reaches_the_service(site):
    async with site.client() as client:
        answer = await client.post(
            "/api/tenant",
            headers={"Authorization": API_KEY},
            json={"tenant": {"name": "", "data": {"x": "x" * 900_000}}},
        )
    assert answer.status_code == 400
    assert "tenant.name" in answer.json()["fieldErrors"]


@pytest.mark.requirement("audit-c1-imports")
@pytest.mark.parametrize(
    ("path", "member"), [("/api/user/import", "users"), ("/api/user/refresh-token/import", "refreshTokens")]
)
async def test_an_import_of_several_megabytes_reaches_the_service(site, path, member):
    async with site.client() as client:
        headers = {"Authorization": API_KEY}
        answer = await client.post(path, headers=headers, json={member: [{"data": {"x": "x" * 1000}}] * 3000})
        beyond = await client.post("/api/user/search", headers=headers, json={"padding": "x" * 1_100_000})
    assert answer.status_code == 400, answer.text
    assert member in answer.text
    assert beyond.status_code == 413


@pytest.mark.requirement("project-14")
async def test_nginx_reuses_connections_to_the_service(site):
    for _ in range(60):
        async with site.client() as client:
            assert (await client.get("/.well-known/jwks.json")).status_code == 200
    ports = {process.port for process in site.processes}
    assert len(connections_to(ports)) <= 8


def connections_to(ports: set[int]) -> list[str]:
    """The sockets of this machine whose other end is one of the ports, closed ones in TIME_WAIT included."""
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return [row for row in rows if int(row.split()[2].rpartition(":")[2], 16) in ports]


BCP_195 = {f"ECDHE-{key}-{cipher}" for key in ("ECDSA", "RSA") for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384")}


def accepts(port: int, cipher: str, authority: str) -> bool:
    """Whether a TLS 1.2 handshake with this cipher suite alone succeeds."""
    context = ssl.create_default_context(cadata=authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(cipher)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
            context.wrap_socket(connection, server_hostname="localhost"),
        ):
            return True
    except ssl.SSLCertVerificationError:
        raise
    except (ssl.SSLError, ConnectionResetError):
        return False


@pytest.mark.requirement("audit-b7-nginx")
async def test_tls_1_2_has_the_cipher_suites_of_bcp_195_only(site):
    every = ssl.create_default_context()
    every.set_ciphers("ALL:!aNULL:!eNULL:!PSK:!SRP")
    known = {cipher["name"] for cipher in every.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
    authority = certificates.authority().pem
    taken = {name for name in known if await asyncio.to_thread(accepts, site.https_port, name, authority)}
    assert taken
    assert taken <= BCP_195


@pytest.mark.requirement("deploy-nginx-log")
async def test_no_log_of_nginx_or_of_the_service_contains_the_token_of_a_link(site):
    token, query = "Zz9-token-of-a-link", {"code": "Zz9-code", "id_token_hint": "Zz9-hint"}
    async with site.client() as client, httpx.AsyncClient() as plain, site.certified(None) as certified:
        assert (await client.get(f"/password/change/{token}", params=query)).status_code == 200
        url = f"http://127.0.0.1:{site.http_port}/password/change/{token}"
        assert (await plain.get(url, params=query, headers={"Host": HOST})).status_code == 308
        assert (await certified.get(f"/password/change/{token}", params=query)).status_code == 404
        await client.get("/api/status", headers={"User-Agent": "the last one"})
    log = site.folder / "access.log"
    async with asyncio.timeout(30):
        while "the last one" not in log.read_text():
            await asyncio.sleep(0.02)
    assert log.read_text().count('"path":"/password/change/..."') >= 3
    texts = [file.read_text() for file in site.folder.glob("*.log")] + [process.text() for process in site.processes]
    assert not any("Zz9" in text for text in texts)


@pytest.mark.requirement("deploy-nginx-headers")
def test_every_server_chooses_the_request_id_and_the_certificate_header():
    text = (ROOT / "docs" / "deploy" / "nginx.conf").read_text()
    for server in re.findall(r"^server \{.*?^\}", text, re.MULTILINE | re.DOTALL):
        if "proxy_pass" in server:
            assert "proxy_set_header X-Request-Id $request_id;" in server
            assert "proxy_set_header Client-Cert " in server


async def test_metrics_are_not_for_the_world(site):
    async with site.client() as client:
        assert (await client.get("/api/prometheus/metrics")).status_code == 404


PATIENCE_SECONDS = 12.0
"""Far above the four seconds that a request waits for a suspended process, and far below the former sixty."""


@pytest.mark.requirement("operate-16")
async def test_a_suspended_process_delays_the_first_clients_and_no_others(site):
    """As after `kill -STOP`: the kernel accepts connections, and nothing responds.

    It runs before the rolling restart, after which both processes count as failed for half a minute.
    """

    async def call(method: str, path: str) -> tuple[str, int, float]:
        began = time.monotonic()
        async with site.client() as client:
            answer = await client.request(method, path, data={"a": "b"} if method == "POST" else None)
        return method, answer.status_code, time.monotonic() - began

    os.kill(site.processes[0].popen.pid, signal.SIGSTOP)
    try:
        first = await asyncio.gather(*(call("GET", "/.well-known/jwks.json") for _ in range(20)))
        later = await asyncio.gather(
            *(call("GET", "/.well-known/jwks.json") for _ in range(20)),
            *(call("POST", "/oauth2/token") for _ in range(20)),
        )
    finally:
        os.kill(site.processes[0].popen.pid, signal.SIGCONT)
    assert {status for _, status, _ in first} == {200}
    assert {(method, status) for method, status, _ in later} == {("GET", 200), ("POST", 400)}
    assert max(seconds for *_, seconds in (*first, *later)) < PATIENCE_SECONDS


@pytest.mark.requirement("design-core-1", "project-14")
async def test_a_rolling_restart_fails_no_request(site):
    answers: list[tuple[str, object]] = []
    stop = asyncio.Event()

    async def call(method: str, path: str) -> None:
        async with site.client() as client:
            while not stop.is_set():
                try:
                    answer = await client.request(method, path, data={"a": "b"} if method == "POST" else None)
                    answers.append((f"{method} {path}", answer.status_code))
                except httpx.HTTPError as error:
                    answers.append((f"{method} {path}", repr(error)))

    callers = [
        asyncio.create_task(call(method, path))
        for method, path in (("GET", "/.well-known/jwks.json"), ("GET", "/api/health"), ("POST", "/oauth2/token"))
        for _ in range(3)
    ]
    try:
        for number, process in enumerate(site.processes):
            seen = len(answers)
            code = await asyncio.to_thread(process.stop)
            assert code == 0, process.text()
            while len(answers) < seen + 100:
                await asyncio.sleep(0.01)
            process.output.close()
            site.processes[number] = site.start(process.port)
            await asyncio.to_thread(site.processes[number].wait_until_ready)
            while len(answers) < seen + 300:
                await asyncio.sleep(0.01)
    finally:
        stop.set()
        await asyncio.gather(*callers)
    failed = [answer for answer in answers if not isinstance(answer[1], int) or answer[1] >= 500]
    assert not failed
    assert len(answers) > 600


@pytest.mark.requirement("oauth-12-35", "oauth-12-36", "oauth-12-37")
async def test_certificate_of_the_handshake_authenticates_the_client(site):
    own, other = certificates.make("own"), certificates.make("other")
    oauth = {
        "clientAuthenticationMethods": ["self_signed_tls_client_auth"],
        "enabledGrants": ["password"],
        "jwks": {"keys": [own.jwk]},
        "tlsClientCertificateBoundAccessTokens": True,
    }
    async with site.client() as client:
        client.headers["Authorization"] = API_KEY
        body = {"application": {"name": "mutual TLS", "oauthConfiguration": oauth}}
        made = (await client.post("/api/application", json=body)).json()["application"]
        user = {"email": "mtls@example.com", "password": "correct horse battery"}
        body = {"user": user, "registration": {"applicationId": made["id"]}, "skipVerification": True}
        assert (await client.post("/api/user/registration", json=body)).status_code == 200

    form = {
        "grant_type": "password",
        "client_id": made["id"],
        "username": user["email"],
        "password": user["password"],
        "scope": "openid",
    }
    async with site.certified(own) as client, site.certified(other) as stranger, site.certified(None) as bare:
        tokens = (await client.post("/oauth2/token", data=form)).json()
        bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
        assert (await client.get("/oauth2/userinfo", headers=bearer)).status_code == 200
        forged = {"Client-Cert": own.client_cert}
        for thief in (stranger, bare):
            answer = await thief.post("/oauth2/token", data=form, headers=forged)
            assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
            answer = await thief.get("/oauth2/userinfo", headers={**bearer, **forged})
            assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
        assert (await client.get("/api/status")).status_code == 404
    async with site.client() as browser:
        answer = await browser.post("/oauth2/token", data=form, headers=forged)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
