"""Redis behind Sentinel and Redis Cluster: addresses, and the stores on real servers."""

from __future__ import annotations

import asyncio
import re
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ha import redis_servers
from identity.domain.authorization.device_grants import DeviceRequest
from identity.errors import StartupError
from identity.ids import TenantId, UserId, new_id
from identity.instants import Instant, later
from identity.store import redis_clients
from identity.store.browser_sessions import SsoSession, SsoSessions
from identity.store.device_grants import DeviceGrants, NewDeviceGrant
from identity.store.one_time_tokens import OneTimeTokens
from identity.store.outages import OUTAGES
from identity.store.redis import Redis
from identity.store.revocations import Revocations
from identity.store.vault import Vault

ROOT = Path(__file__).resolve().parent.parent.parent
STORES = ROOT / "identity" / "store"


@pytest.mark.requirement("operate-6")
@pytest.mark.parametrize(
    ("url", "kind", "hosts", "service", "options"),
    [
        ("redis+sentinel://a,b:1/mymaster", "sentinel", (("a", 26379), ("b", 1)), "mymaster", {}),
        (
            "redis+sentinel://me:p%40ss@a:2/mymaster/3?sentinel_password=s",
            "sentinel", (("a", 2),), "mymaster",
            {"username": "me", "password": "p@ss", "db": 3, "sentinel_password": "s"},
        ),
        ("redis+cluster://:secret@a,b:7000", "cluster", (("a", 6379), ("b", 7000)), "", {"password": "secret"}),
        ("rediss+cluster://[::1]:7000?ssl_ca_certs=ca", "cluster", (("::1", 7000),), "", {"ssl_ca_certs": "ca"}),
    ],
)  # fmt: skip
def test_addresses_of_sentinel_and_cluster_are_read(url, kind, hosts, service, options):
    address = redis_clients.parse(url)
    assert (address.kind, address.hosts, address.service) == (kind, hosts, service)
    assert dict(address.options) == options
    assert address.is_tls == url.startswith("rediss")
    assert "secret" not in repr(address)


@pytest.mark.parametrize("url", ["redis://a:1/0", "rediss://a", "unix:///tmp/socket"])
def test_address_of_one_server_is_left_to_the_library(url):
    assert redis_clients.parse(url) is None


@pytest.mark.requirement("operate-6")
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis+sentinel://a:26379", "must name the service"),
        ("redis+sentinel:///mymaster", "a host is missing"),
        ("redis+cluster://a,,b", "a host is missing"),
        ("redis+cluster://a/1", "database 0 only"),
        ("redis+proxy://a", "the scheme must be"),
        ("http+cluster://a", "the scheme must be"),
    ],
)
async def test_unusable_address_is_named(url, message):
    with pytest.raises(StartupError, match=re.escape("redis.url is not usable")) as caught:
        Redis(url, "prefix")
    assert message in str(caught.value)


@pytest.mark.requirement("operate-6")
async def test_connection_through_sentinel():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        async with redis_servers.replicated(redis_servers.Setup(Path(folder)), servers=1, sentinels=1) as running:
            redis = Redis(running.url, new_id())
            await redis.check()
            await redis.set_hash(redis.key("a"), {"member": "value"}, 60)
            assert await redis.client.hgetall(redis.key("a")) == {"member": "value"}
            await redis.close()


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[Redis]:
    """A connection to a cluster of three nodes. `make ha` runs all tests of the stores on one."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        async with redis_servers.sharded(redis_servers.Setup(Path(folder)), masters=3, replicas_each=0) as running:
            connected = Redis(running.url, new_id())
            yield connected
            await connected.close()


@pytest.mark.requirement("operate-6")
async def test_sessions_of_a_user_work_on_a_cluster(cluster):
    sessions, tenant_id, user_id = (
        SsoSessions(cluster, Vault({"test": secrets.token_bytes(32)})),
        TenantId(new_id()),
        UserId(new_id()),
    )
    made = [SsoSession(new_id(), user_id, Instant(1), "PASSWORD", False) for _ in range(3)]
    for secret, session in zip("abc", made, strict=True):
        await sessions.create(tenant_id, secret, session, 60)
    assert await sessions.touch(tenant_id, "a", 60) == made[0]
    assert await sessions.end(tenant_id, "b") == made[1]
    assert set(await sessions.end_of_user(tenant_id, user_id)) == {made[0], made[2]}
    assert await sessions.find(tenant_id, "a") is None


@pytest.mark.requirement("operate-6")
async def test_one_time_tokens_work_on_a_cluster(cluster):
    tokens, tenant_id = OneTimeTokens(cluster), TenantId(new_id())
    secret = await tokens.issue(tenant_id, "kind", "owner", {"a": 1}, 60)
    assert await tokens.find_counting_attempt(tenant_id, "kind", secret, 1)
    assert await tokens.extend(tenant_id, "kind", secret, 90)
    assert await tokens.find_counting_attempt(tenant_id, "kind", secret, 1) is None
    outcomes = await asyncio.gather(*(tokens.consume(tenant_id, "kind", secret) for _ in range(64)))
    assert sum(outcome is not None for outcome in outcomes) == 1


@pytest.mark.requirement("operate-6")
async def test_device_grants_work_on_a_cluster(cluster):
    grants, tenant_id, now = DeviceGrants(cluster), TenantId(new_id()), Instant(1_700_000_000_000)
    new = NewDeviceGrant(new_id(), new_id(), DeviceRequest(), later(now, seconds=300), 5)
    assert await grants.issue(tenant_id, "code", "BCDFGH", new, now)
    assert await grants.decide(tenant_id, "BCDFGH", new.grant_id, None, now) == "Denied"
    assert (await grants.poll(tenant_id, "code", new.client_id, now)).outcome == "Denied"


@pytest.mark.requirement("operate-6")
async def test_more_commands_than_connections_wait_on_a_cluster(cluster):
    revocations, tenant_id = Revocations(cluster), TenantId(new_id())
    await revocations.revoke(tenant_id, [str(number) for number in range(600)], 60)
    assert await revocations.is_revoked(tenant_id, ["none", "599"])


@pytest.mark.requirement("operate-6")
async def test_message_reaches_a_subscriber_on_a_cluster(cluster):
    await cluster.ping()
    async with cluster.client.pubsub(ignore_subscribe_messages=True) as listener, asyncio.timeout(20):
        await listener.subscribe("channel")
        message = None
        while message is None:
            await cluster.client.publish("channel", "hello")
            message = await listener.get_message(ignore_subscribe_messages=True, timeout=0.1)
    assert message["data"] == "hello"


@pytest.mark.requirement("operate-6")
async def test_cluster_that_does_not_answer_is_an_outage():
    redis = Redis("redis+cluster://127.0.0.1:1", new_id())
    with pytest.raises(OUTAGES):
        await redis.client.get("a")
    await redis.close()


@pytest.mark.requirement("operate-6")
def test_stores_use_no_pipelines():
    """Their keys could be on several nodes: scripts and single commands take their place."""
    found = [file.name for file in STORES.glob("*.py") if re.search(r"\.pipeline\(|\.multi\(", file.read_text())]
    assert found == ["redis_clients.py"]
