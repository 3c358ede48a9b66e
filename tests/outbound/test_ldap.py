"""LDAP authentication against OpenLDAP: attributes, TLS, injection, and servers that do not behave."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from identity.config.sections import AllowedNetworks, Connectors
from identity.ids import Secret
from identity.outbound.addresses import Network
from identity.outbound.directories import Directory, LdapError
from identity.outbound.ldap import LdapClient
from tests import directory
from tests.directory import BASE, PASSWORD, READER, READER_PASSWORD, DirectoryServer

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
ATTRIBUTES = ("uid", "cn", "mail", "employeeNumber", "jpegPhoto;binary", "description")


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[DirectoryServer]:
    async with directory.running_directory() as running:
        yield running


def connectors(networks: tuple[Network, ...], authorities_file: Path | None) -> Connectors:
    return Connectors(1, authorities_file, AllowedNetworks(networks, "connectors.allowed_networks"))


@pytest.fixture
async def client(server) -> AsyncIterator[LdapClient]:
    client = LdapClient(connectors(LOOPBACK, server.authorities))
    yield client
    await client.close()


def settings(server: DirectoryServer, security: str = "None", **members: object) -> Directory:
    port = server.tls_port if security == "LDAPS" else server.port
    usual = {
        "url": f"ldap://127.0.0.1:{port}",
        "security": security,
        "system_account_dn": READER,
        "system_account_password": Secret(READER_PASSWORD),
        "base": BASE,
        "login_id_attribute": "uid",
        "identifying_attribute": "uid",
        "attributes": ATTRIBUTES,
        "connect_timeout_ms": 20_000,
        "read_timeout_ms": 20_000,
    }
    return Directory(**{**usual, **members})  # type: ignore[arg-type]


@pytest.mark.requirement("connectors-8")
@pytest.mark.parametrize("security", ["None", "StartTLS", "LDAPS"])
async def test_correct_password_returns_the_attributes(server, client, security) -> None:
    found = await client.authenticate(settings(server, security), "ada", PASSWORD)
    assert found == {
        "uid": "ada",
        "cn": "Ada Lovelace",
        "mail": ["ada@directory.example.com", "countess@directory.example.com"],
        "employeeNumber": "8d6d9b1e-5d0c-4c37-9f5c-4fb3d5e3a001",
        "jpegPhoto;binary": "/9j/4A==",
    }


@pytest.mark.requirement("connectors-8")
@pytest.mark.parametrize(
    ("login_id", "password"),
    [
        ("ada", "wrong"),
        ("ada", ""),
        ("", PASSWORD),
        ("unknown", PASSWORD),
        ("printer", PASSWORD),  # its name starts with another attribute than those of users
        ("passwordless", PASSWORD),
        ("*", PASSWORD),
        ("a*", PASSWORD),
        ("ada)(uid=*", PASSWORD),
        ("*)(objectClass=*", PASSWORD),
        ("ada\x00", PASSWORD),
        ("\\61da", PASSWORD),
        (f"uid=ada,{BASE}", PASSWORD),
    ],
)
async def test_other_credentials_are_refused(server, client, login_id, password) -> None:
    assert await client.authenticate(settings(server), login_id, password) is None


@pytest.mark.requirement("connectors-8")
async def test_login_id_with_the_characters_of_filters_is_found(server, client) -> None:
    found = await client.authenticate(settings(server, login_id_attribute="cn"), "Grace (Hopper)*", PASSWORD)
    assert found is not None
    assert found["uid"] == "grace"


@pytest.mark.requirement("connectors-8")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"system_account_password": Secret("wrong")}, "system account could not bind"),
        ({"base": "dc=elsewhere"}, None),
        ({"login_id_attribute": "sn; x"}, None),
        ({"login_id_attribute": "objectClass", "login_id": "inetOrgPerson"}, "several entries"),
    ],
)
async def test_wrong_settings_find_no_user(server, client, change, reason) -> None:
    login_id = change.pop("login_id", "ada") if "login_id" in change else "ada"
    if reason is None:
        assert await client.authenticate(settings(server, **change), login_id, PASSWORD) is None
    else:
        with pytest.raises(LdapError, match=reason):
            await client.authenticate(settings(server, **change), login_id, PASSWORD)


@pytest.mark.requirement("connectors-8")
@pytest.mark.parametrize("security", ["StartTLS", "LDAPS"])
async def test_certificate_of_an_unknown_authority_is_rejected(server, security) -> None:
    client = LdapClient(connectors(LOOPBACK, None))
    with pytest.raises(LdapError, match="TLS failed"):
        await client.authenticate(settings(server, security), "ada", PASSWORD)
    await client.close()


@pytest.mark.requirement("connectors-8")
@pytest.mark.parametrize("security", ["None", "LDAPS"])
async def test_addresses_outside_the_allowed_networks_are_blocked(server, security) -> None:
    client = LdapClient(connectors((), server.authorities))
    with pytest.raises(LdapError, match="not public"):
        await client.authenticate(settings(server, security), "ada", PASSWORD)
    await client.close()


@contextlib.asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that sends one answer per request, and then nothing; and what it received."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            for answer in answers:
                received.append(await reader.read(65_536))
                writer.write(answer)
                await writer.drain()
            received.append(await reader.read(65_536))
            await reader.read()
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield running.sockets[0].getsockname()[1], received
    finally:
        running.close()


# ExtendedResponse success, and BindResponse success (RFC 4511 section 4.1.1), both for the message 1.
STARTED = bytes.fromhex("300c02010178070a010004000400")
BOUND = bytes.fromhex("300c02010161070a010004000400")
REFUSED = bytes.fromhex("300c02010178070a013504000400")


@pytest.mark.requirement("connectors-8")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (REFUSED, "refused StartTLS"),
        (STARTED + BOUND, "something else|ProtocolError"),
        (BOUND, "something else|ProtocolError"),
        (b"\x04\x01\x00", "ProtocolError"),
        (b"", "no answer in time"),
    ],
    ids=["refused", "more plaintext", "another response", "no LDAP", "nothing"],
)
async def test_no_password_is_sent_without_the_tls_that_was_required(server, answer, reason) -> None:
    client = LdapClient(connectors(LOOPBACK, server.authorities))
    async with answering(answer) as (port, received):
        members = {"url": f"ldap://127.0.0.1:{port}", "connect_timeout_ms": 1000}
        with pytest.raises(LdapError, match=reason):
            await client.authenticate(settings(server, "StartTLS", **members), "ada", PASSWORD)
    await client.close()
    assert not any(READER_PASSWORD.encode() in one or PASSWORD.encode() in one for one in received)


@pytest.mark.requirement("connectors-8")
@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((b"",), "no answer in time"),
        ((b"\x30\x84\x7f\xff\xff\xff" + b"\0" * 1_100_000,), "more than"),
        ((b"\x04\x01\x00",), "ProtocolError"),
    ],
    ids=["nothing", "flood", "no LDAP"],
)
async def test_misbehaving_server_is_a_failure(server, client, answers, reason) -> None:
    async with answering(*answers) as (port, _):
        members = {"url": f"ldap://127.0.0.1:{port}", "read_timeout_ms": 1000}
        with pytest.raises(LdapError, match=reason):
            await client.authenticate(settings(server, **members), "ada", PASSWORD)


@pytest.mark.requirement("connectors-8")
async def test_unreachable_server_is_a_failure(server, client) -> None:
    with pytest.raises(LdapError, match="ConnectionRefusedError"):
        await client.authenticate(settings(server, url="ldap://127.0.0.1:1"), "ada", PASSWORD)
