"""What nginx logs and limits: the files of docs/deploy that both configurations include, in front of a plain server."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import prometheus_client
import pytest

from identity.web import application
from tests.operator.processes import ROOT
from tests.ports import free_port

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"
FRAME = """
daemon off;
user {user};
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/main.log notice;
events {{ worker_connections 1024; }}
http {{
    access_log {folder}/combined.log;
    # Clients of the tests choose their address.
    set_real_ip_from 127.0.0.1;
    real_ip_header X-Test-Address;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {text}
}}
"""
TEMPLATES = sorted({route.template for route in application.routes(prometheus_client.CollectorRegistry())})
TOKEN = "Zz9_secretsecretsecretsecret-secret"
ONE_TIME = {
    "/password/change/{change_id}",
    "/{tenant_id}/password/change/{link_id}",
    "/email/verify/{verification_id}",
    "/{tenant_id}/email/verify/{link_id}",
    "/registration/verify/{verification_id}",
    "/{tenant_id}/registration/verify/{link_id}",
    "/oauth2/passwordless/{code}",
    "/{tenant_id}/oauth2/passwordless/{code}",
    "/email/code/{page_id}",
    "/email/revoke-change/{token}",
    "/phone/revoke-change/{token}",
    "/api/user/change-password/{change_password_id}",
    "/api/user/verify-email/{verification_id}",
    "/api/user/verify-registration/{verification_id}",
    "/api/two-factor/send/{two_factor_id}",
    "/api/two-factor/status/{two_factor_trust_id}",
    "/api/identity-provider/link/pending/{pending_id}",
}
"""Paths with a secret, which may consist of letters only, as codes of passwordless logins that an API caller chose."""
BURST, IN_PROGRESS = 20, 10
TENANT = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0001"


class Upstream:
    """An HTTP server that answers 204, or not at all while it is held, and keeps the heads of requests."""

    def __init__(self) -> None:
        self.port = free_port()
        self.heads: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                await self.may_answer.wait()
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        writer.close()


class Proxy:
    """nginx with the configuration of compose.yaml: its upstream, its logs, and clients with an address each."""

    def __init__(self, folder: Path, upstream: Upstream) -> None:
        self.folder, self.upstream, self.port = folder, upstream, free_port()
        text = (ROOT / "deploy" / "compose" / "nginx.conf").read_text()
        for name in ("http", "server"):
            included = (ROOT / "docs" / "deploy" / f"nginx-{name}.conf").read_text()
            # A smaller burst and a slower refill, so that the number of requests decides and not their speed.
            included = re.sub(r"rate=\d+r/s", "rate=1r/m", re.sub(r"burst=\d+", f"burst={BURST}", included))
            included = re.sub(r"(limit_conn \w+) \d+;", rf"\1 {IN_PROGRESS};", included)
            included = included.replace("/var/log/nginx", str(folder))
            (folder / f"identity-{name}.conf").write_text(included)
        text = text.replace("/etc/nginx/", f"{folder}/").replace("listen 8080;", f"listen 127.0.0.1:{self.port};")
        text = re.sub(r"identity-\d:9011", f"127.0.0.1:{upstream.port}", text)
        (folder / "nginx.conf").write_text(FRAME.format(folder=folder, user=getpass.getuser(), text=text))

    def client(self, address: str) -> httpx.AsyncClient:
        """A client with an address of its own, and so with limits of its own."""
        headers = {"X-Test-Address": address}
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=30)

    async def logged(self, agent: str) -> list[dict[str, str]]:
        """The entries of the access log, as soon as one with this user agent is there."""
        async with asyncio.timeout(30):
            while agent not in (self.folder / "access.log").read_text():
                await asyncio.sleep(0.02)
        return [json.loads(line) for line in (self.folder / "access.log").read_text().splitlines()]

    def every_log(self) -> str:
        return "".join(file.read_text() for file in self.folder.glob("*.log"))


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    made = Upstream()
    server = await asyncio.start_server(made.serve, "127.0.0.1", made.port)
    yield made
    made.may_answer.set()
    server.close()


@pytest.fixture
async def proxy(tmp_path: Path, upstream: Upstream) -> AsyncIterator[Proxy]:
    made = Proxy(tmp_path, upstream)
    command = [NGINX, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    nginx = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", made.port)).close()
                    break
                assert nginx.poll() is None
                await asyncio.sleep(0.02)
        yield made
    finally:
        nginx.terminate()
        nginx.wait()


def filled(template: str, value: str) -> str:
    return re.sub(r"\{\w+\}", value, template.replace("{tenant_id}/", f"{TENANT}/"))


@pytest.mark.requirement("deploy-nginx-log")
async def test_logs_of_nginx_contain_no_token_code_or_query(proxy):
    wanted = [(template, filled(template, TOKEN)) for template in TEMPLATES]
    wanted += [(template, filled(template, "letters")) for template in ONE_TIME]
    query = f"?code={TOKEN}&access_token={TOKEN}&id_token_hint={TOKEN}"
    headers = {"Referer": f"https://app.example/{query}", "Cookie": f"a={TOKEN}", "Authorization": f"Bearer {TOKEN}"}
    async with proxy.client("127.0.0.2") as client:
        for _, path in wanted:
            await client.get(path + query, headers=headers)  # logged also if a limit is exceeded
        await client.get(f"/change/{TOKEN}")
        await client.get("/", headers={"User-Agent": "the last one"})
    entries = await proxy.logged("the last one")
    assert len(entries) == len(wanted) + 2
    assert TOKEN not in proxy.every_log()
    assert "letters" not in proxy.every_log()
    paths = {entry["path"] for entry in entries}
    assert {"/", "/oauth2/token", "/password/change/...", "/oauth2/passwordless/...", "/api/user/...", "..."} <= paths
    assert all(entry["address"] == "127.0.0.2" and entry["request_id"] for entry in entries)


@pytest.mark.requirement("deploy-nginx-log")
async def test_paths_without_a_parameter_are_logged_completely(proxy):
    async with proxy.client("127.0.0.2") as client:
        plain = [template for template in TEMPLATES if re.fullmatch(r"[a-z0-9/_-]+|/\.well-known/[^{]+", template)]
        for path in plain:
            await client.get(path)
        await client.get("/", headers={"User-Agent": "the last one"})
    paths = {entry["path"] for entry in await proxy.logged("the last one")}
    assert len(plain) > 200
    # The version in the paths of SCIM looks like an id.
    assert {path for path in set(plain) - paths if not path.startswith("/api/scim/")} == set()


@pytest.mark.requirement("deploy-nginx-log")
async def test_error_log_has_no_query_while_no_process_answers_or_a_limit_is_exceeded(proxy):
    text = (proxy.folder / "nginx.conf").read_text()
    (proxy.folder / "nginx.conf").write_text(re.sub(r"server 127\.0\.0\.1:\d+", "server 127.0.0.1:1", text))
    subprocess.run([NGINX, "-p", str(proxy.folder), "-c", str(proxy.folder / "nginx.conf"), "-s", "reload"], check=True)
    async with proxy.client("127.0.0.2") as client, asyncio.timeout(30):
        while (await client.get(f"/password/change/{TOKEN}", params={"code": TOKEN})).status_code != 502:
            await asyncio.sleep(0.05)
        while (await client.get(f"/password/change/{TOKEN}", params={"code": TOKEN})).status_code != 429:
            pass
        await client.get("/", headers={"User-Agent": "the last one"})
    entries = await proxy.logged("the last one")
    assert {"502", "429"} <= {entry["status"] for entry in entries}
    assert any(entry["upstream"].startswith("127.0.0.1:1") and entry["upstream_status"] for entry in entries)
    assert TOKEN not in proxy.every_log()


KINDS = [
    ("/oauth2/token", {"error": "temporarily_unavailable"}),
    (f"/{TENANT}/oauth2/introspect", {"error": "temporarily_unavailable"}),
    ("/oauth2/authorize", None),
    (f"/{TENANT}/password/change/x", None),
    ("/api/login", {"code": "[TooManyRequests]"}),
    ("/api/scim/resource/v2/Users", {"status": "429"}),
]


@pytest.mark.requirement("deploy-nginx-limits")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(("path", "expected"), KINDS, ids=[path for path, _ in KINDS])
async def test_requests_beyond_the_burst_get_429_in_the_shape_of_the_service(proxy, path, expected, method):
    async with proxy.client("127.0.0.2") as client, proxy.client("127.0.0.3") as neighbour:
        # nginx admits the first request, then the burst; a minute adds one.
        statuses = [(await client.request(method, path)).status_code for _ in range(BURST + 1)]
        assert set(statuses) == {204}
        answers = [await client.request(method, path) for _ in range(5)]
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert refused.headers["Retry-After"] == "2"
        if expected is None:
            assert refused.headers["Content-Type"].startswith("text/html")
        else:
            assert refused.headers["Content-Type"].startswith("application/json")
            body = refused.json()
            found = body["generalErrors"][0] if "generalErrors" in body else body
            assert expected.items() <= found.items()
        # Other clients, health checks and static files have no part in it.
        assert (await neighbour.request(method, path)).status_code == 204
        for other in ("/api/health", "/.well-known/jwks.json", "/static/page.css", "/admin/static/admin.css"):
            assert (await client.get(other)).status_code == 204


@pytest.mark.requirement("deploy-nginx-limits")
@pytest.mark.parametrize(
    ("first", "second", "shares_limits"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::9", True),
        ("2001:db8:1::1", "2001:db8:1::2:3", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
async def test_addresses_of_one_ipv6_network_share_their_limits(proxy, first, second, shares_limits):
    async with proxy.client(first) as client, proxy.client(second) as other:
        for _ in range(BURST + 1):
            await client.get("/api/user")
        assert ((await other.get("/api/user")).status_code == 429) is shares_limits


@pytest.mark.requirement("deploy-nginx-limits")
@pytest.mark.parametrize("path", ["/oauth2/token", "/oauth2/authorize", "/api/user"])
async def test_requests_in_progress_are_limited_per_client(proxy, upstream, path):
    upstream.may_answer.clear()
    async with proxy.client("127.0.0.2") as client, proxy.client("127.0.0.3") as neighbour:
        held = [asyncio.create_task(client.get(path)) for _ in range(IN_PROGRESS)]
        async with asyncio.timeout(30):
            while len([head for head in upstream.heads if path in head]) < IN_PROGRESS:
                await asyncio.sleep(0.02)
        assert (await client.get(path)).status_code == 429
        other = asyncio.create_task(neighbour.get(path))
        upstream.may_answer.set()
        assert {answer.status_code for answer in await asyncio.gather(*held, other)} == {204}


@pytest.mark.requirement("deploy-nginx-headers")
async def test_headers_that_only_a_proxy_may_set_are_replaced(proxy, upstream):
    forged = {"Client-Cert": ":MIIB:", "X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.1"}
    async with proxy.client("127.0.0.2") as client:
        await client.get("/", headers={**forged, "X-Forwarded-Proto": "https", "X-Request-Id": "chosen"})
    (head,) = (head.lower() for head in upstream.heads if head.startswith("GET / "))
    assert "x-forwarded-for: 127.0.0.2\r\n" in head
    assert "x-forwarded-proto: http\r\n" in head
    assert not re.search(r"client-cert|192\.0\.2\.1|chosen|^forwarded", head, re.MULTILINE)


@pytest.mark.requirement("deploy-nginx-log", "deploy-nginx-limits")
@pytest.mark.parametrize("name", ["docs/deploy/nginx.conf", "deploy/compose/nginx.conf"])
def test_every_server_includes_the_log_format_and_the_limits(name):
    text = (ROOT / name).read_text()
    assert text.count("include /etc/nginx/identity-http.conf;") == 1
    servers = re.findall(r"^server \{.*?^\}", text, re.MULTILINE | re.DOTALL)
    assert servers
    assert all(server.count("include /etc/nginx/identity-server.conf;") == 1 for server in servers)
    assert not re.search(r"^\s*(access_log|error_log|log_format)", text, re.MULTILINE)
