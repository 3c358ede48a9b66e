"""Sending mail to real mail servers, with and without TLS and credentials, with all kinds of replies."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from pathlib import Path
from typing import Any

import pytest

from identity.config.sections import AllowedNetworks, Email
from identity.domain.messaging import mail_messages
from identity.domain.messaging.mail_messages import Address, MailContent, UndeliverableAddress
from identity.ids import Secret
from identity.instants import Instant
from identity.outbound.mail import MailServer, SmtpClient
from tests import certificates
from tests.mailbox import PASSWORD, Mailbox, receiving

MESSAGE = b"From: a@example.com\r\nTo: b@example.com\r\nSubject: s\r\n\r\n.text\r\n"
READERS = ("b@example.com", "c@example.com")
LOOPBACK = AllowedNetworks((ipaddress.ip_network("127.0.0.0/8"),), "email.allowed_networks")


def server(mailbox: Mailbox, security: str = "NONE", **members: object) -> MailServer:
    configuration = {"host": "127.0.0.1", "port": mailbox.port, "security": security, **members}
    return MailServer.of(configuration)


@pytest.fixture
def authorities(tmp_path) -> Path:
    file = tmp_path / "authorities.pem"
    file.write_text(certificates.authority().pem)
    return file


def client(authorities: Path | None, **settings: Any) -> SmtpClient:
    """A client with these settings, and those of the tests."""
    defaults = {"timeout_seconds": 10, "allowed_networks": LOOPBACK, "plaintext_auth_hosts": ()}
    others = {"schedule": (), "concurrency_per_tenant": 1, "max_concurrency": 1, "authorities_file": authorities}
    return SmtpClient(Email(**{**others, **defaults, **settings}))


@pytest.fixture
def smtp(authorities) -> SmtpClient:
    return client(authorities, plaintext_auth_hosts=("127.0.0.1",))


def tls(*, trusted: bool = True):
    return certificates.server_context(certificates.make("mail", certificates.authority() if trusted else None))


@pytest.mark.requirement("core-18-templates-12")
async def test_mail_arrives_byte_for_byte(smtp) -> None:
    async with receiving() as mailbox:
        result = await smtp.send(server(mailbox), "a@example.com", READERS, MESSAGE)
    assert (result.is_complete, result.refused, result.reply) == (True, {}, "OK")
    (mail,) = mailbox.mails
    assert (mail.raw, mail.sender, mail.recipients) == (MESSAGE, "a@example.com", list(READERS))
    assert not mail.is_encrypted
    assert mailbox.names == [socket.gethostname()]


@pytest.mark.requirement("core-18-templates-12")
@pytest.mark.parametrize("security", ["SSL", "TLS"])
async def test_encrypted_from_the_start_or_from_STARTTLS_on(smtp, security) -> None:  # noqa: N802
    settings = {"tls": tls()} if security == "SSL" else {"starttls": tls()}
    async with receiving(**settings) as mailbox:
        result = await smtp.send(server(mailbox, security), "a@example.com", READERS, MESSAGE)
    assert result.is_complete, result.reply
    assert mailbox.mails[0].is_encrypted


@pytest.mark.requirement("core-18-templates-12")
@pytest.mark.parametrize("security", ["SSL", "TLS"])
async def test_untrusted_certificate_is_rejected(smtp, security) -> None:
    settings = {"tls": tls(trusted=False)} if security == "SSL" else {"starttls": tls(trusted=False)}
    async with receiving(**settings) as mailbox:
        result = await smtp.send(server(mailbox, security), "a@example.com", READERS, MESSAGE)
        unknown = await client(None).send(server(mailbox, security), "a@example.com", READERS, MESSAGE)
    for one in (result, unknown):
        assert one.deferred == READERS
        assert "certificate" in one.reply.lower()
    assert mailbox.mails == []


@pytest.mark.requirement("core-18-templates-12")
async def test_required_encryption_is_never_omitted(smtp) -> None:
    async with receiving() as mailbox:
        result = await smtp.send(server(mailbox, "TLS"), "a@example.com", READERS, MESSAGE)
    assert result.deferred == READERS
    assert mailbox.mails == []


@pytest.mark.requirement("core-18-templates-12")
async def test_name_and_password(smtp) -> None:
    async with receiving(auth=True) as mailbox:
        named = server(mailbox, username="we", password=PASSWORD)
        assert (await smtp.send(named, "a@example.com", READERS, MESSAGE)).is_complete
        wrong = server(mailbox, username="we", password="not the password of the server")
        refused = await smtp.send(wrong, "a@example.com", READERS, MESSAGE)
        nameless = await smtp.send(server(mailbox), "a@example.com", READERS, MESSAGE)
    assert mailbox.mails[0].username == "we"
    assert len(mailbox.mails) == 1
    # All of them can still be sent after the password is corrected.
    assert refused.deferred == READERS
    assert refused.reply.startswith("535")
    assert "not the password" not in str(refused)
    assert "not the password" not in repr(wrong)
    assert nameless.deferred == READERS
    assert nameless.reply.startswith("530")


@pytest.mark.requirement("audit-a3-smtp")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "::ffff:127.0.0.1"])
async def test_non_public_server_is_not_connected_to(authorities, host) -> None:
    guarded = client(authorities, allowed_networks=AllowedNetworks((), "email.allowed_networks"))
    async with receiving() as mailbox:
        result = await guarded.send(MailServer(host, mailbox.port, "NONE"), "a@example.com", READERS, MESSAGE)
        assert mailbox.connections == 0
    assert result.deferred == READERS
    assert "is not public" in result.reply
    assert "email.allowed_networks can let it through" in result.reply


@pytest.mark.requirement("audit-a3-smtp")
async def test_localhost_is_found_where_its_network_is_allowed(smtp) -> None:
    async with receiving() as mailbox:
        result = await smtp.send(MailServer("localhost", mailbox.port, "NONE"), "a@example.com", READERS, MESSAGE)
    assert result.is_complete, result.reply


@pytest.mark.requirement("audit-a3-smtp")
async def test_credentials_are_not_sent_without_tls_unless_the_host_is_allowed(authorities) -> None:
    strict = client(authorities)
    async with receiving(auth=True) as mailbox:
        named = server(mailbox, username="we", password=PASSWORD)
        result = await strict.send(named, "a@example.com", READERS, MESSAGE)
        assert mailbox.connections == 0
    assert result.deferred == READERS
    assert "email.plaintext_auth_hosts" in result.reply
    async with receiving(auth=True, tls=tls()) as mailbox:
        named = server(mailbox, "SSL", username="we", password=PASSWORD)
        assert (await strict.send(named, "a@example.com", READERS, MESSAGE)).is_complete


@pytest.mark.requirement("core-18-templates-15")
async def test_password_repeated_by_a_server_is_not_logged(smtp) -> None:
    async def echo(reader, writer) -> None:
        writer.write(f"554 your password is {PASSWORD}\r\n".encode())
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    result = await smtp.send(
        MailServer("127.0.0.1", port, "NONE", "we", Secret(PASSWORD)), "a@example.com", READERS, MESSAGE
    )
    listening.close()
    assert "***" in result.reply
    assert PASSWORD not in str(result)


@pytest.mark.parametrize(
    ("refusals", "refused", "deferred"),
    [
        ({"b@example.com": "550 unknown"}, {"b@example.com": "550 unknown"}, ()),
        ({"b@example.com": "451 later"}, {}, ("b@example.com",)),
        (
            {"b@example.com": "550 unknown", "c@example.com": "452 full"},
            {"b@example.com": "550 unknown"},
            ("c@example.com",),
        ),
        ({"DATA": "554 no"}, {"b@example.com": "554 no", "c@example.com": "554 no"}, ()),
        ({"DATA": "451 later"}, {}, READERS),
    ],
)
async def test_permanent_and_temporary_rejections(smtp, refusals, refused, deferred) -> None:
    async with receiving() as mailbox:
        mailbox.refusals = refusals
        result = await smtp.send(server(mailbox), "a@example.com", READERS, MESSAGE)
    assert (result.refused, result.deferred) == (refused, deferred)
    taken = [one for mail in mailbox.mails for one in mail.recipients]
    if "DATA" not in refusals:
        assert sorted([*taken, *refused, *deferred]) == sorted(READERS)


async def test_refused_connection_and_unknown_host_are_deferred(smtp) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for host in ("127.0.0.1", "no-such-host.invalid", "x" * 300):
        result = await smtp.send(MailServer(host, port, "NONE"), "a@example.com", READERS, MESSAGE)
        assert (result.deferred, result.refused) == (READERS, {})
        assert result.reply


async def test_silent_server_is_abandoned(authorities) -> None:
    async with receiving() as mailbox:
        mailbox.hangs = True
        hasty = client(authorities, timeout_seconds=0.2)
        result = await hasty.send(server(mailbox), "a@example.com", READERS, MESSAGE)
    assert result.deferred == READERS


@pytest.mark.requirement("core-18-templates-16")
async def test_smtp_commands_cannot_be_injected(smtp) -> None:
    async with receiving() as mailbox:
        named = server(mailbox, properties="mail.smtp.localhost=a\\r\\nMAIL FROM:<x@y.z>")
        assert named.own_name == "a\r\nMAIL FROM:<x@y.z>"
        assert (await smtp.send(named, "a@example.com", READERS, MESSAGE)).deferred == READERS
        await smtp.send(server(mailbox), "a@example.com>\r\nRCPT TO:<x@y.z", READERS, MESSAGE)
        await smtp.send(server(mailbox), "a@example.com", ["b@example.com>\r\nRCPT TO:<x@y.z"], MESSAGE)
    assert all("x@y.z" not in mail.recipients and mail.sender != "x@y.z" for mail in mailbox.mails)


# The bytes of a mail

NOW = Instant(1_763_690_000_000)


def composed(**members: object) -> bytes:
    letter = MailContent(
        **{"sender": Address("a@example.com"), "to": Address("b@example.com"), "subject": "s", **members}
    )
    return mail_messages.compose(letter, "<id@example.com>", NOW)


@pytest.mark.requirement("core-18-templates-16")
def test_mail_is_ascii_with_the_headers_of_a_mail() -> None:
    raw = composed(text="Grüße\n", html="<p>Grüße</p>", subject="Grüße", sender=Address("a@bücher.example", "Änne"))
    raw.decode("ascii")
    assert b"\n" not in raw.replace(b"\r\n", b"")
    head = raw.split(b"\r\n\r\n")[0].decode()
    for line in (
        "Message-ID: <id@example.com>",
        "Date: Fri, 21 Nov 2025 01:53:20 +0000",
        "From: =?utf-8?q?=C3=84nne?= <a@xn--bcher-kva.example>",
        "To: b@example.com",
        "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=",
        "MIME-Version: 1.0",
    ):
        assert line in head.splitlines()
    assert "Content-Type: multipart/alternative;" in head


@pytest.mark.requirement("core-18-templates-16")
@pytest.mark.parametrize(
    ("parts", "kind"), [({"text": "x"}, "text/plain"), ({"html": "x"}, "text/html"), ({}, "text/plain")]
)
def test_one_part_stands_alone(parts, kind) -> None:
    assert f"Content-Type: {kind};".encode() in composed(**parts)


@pytest.mark.requirement("core-18-templates-13")
def test_additional_headers_do_not_replace_or_break_anything() -> None:
    headers = [("X-A", "b"), ("X-A", "c"), ("To", "x@y.z"), ("X-B\r\nBcc", "d"), ("X-C", "e\r\nBcc: f")]
    head = composed(text="x", headers=headers).split(b"\r\n\r\n")[0]
    assert head.count(b"X-A: b") == head.count(b"X-A") == 1
    assert b"Bcc" not in head
    assert b"x@y.z" not in head


@pytest.mark.requirement("core-18-templates-16")
@pytest.mark.parametrize(
    ("address", "ascii_form"),
    [
        ("a@example.com", "a@example.com"),
        (" a+b@Example.com ", "a+b@Example.com"),
        ("a@bücher.example", "a@xn--bcher-kva.example"),
        ("o'neil@localhost", "o'neil@localhost"),
    ],
)
def test_addresses_mail_can_be_sent_to(address, ascii_form) -> None:
    assert mail_messages.ascii_address(address) == ascii_form


@pytest.mark.requirement("core-18-templates-16")
@pytest.mark.parametrize(
    "address",
    [
        "", "a", "@example.com", "a@", "ä@example.com", "a b@example.com", "a@exa mple.com", "a..b@example.com",
        ".a@example.com", "a@-x.com", "a@x..com", '"a b"@example.com', f"{'x' * 65}@example.com", f"a@{'x' * 64}.com",
        f"a@{'x.' * 130}com", "a@example.com\r\nBcc: x@y.z", "a@[127.0.0.1]", "a<b>@example.com",
    ],
)  # fmt: skip
def test_addresses_no_mail_can_be_sent_to(address) -> None:
    with pytest.raises(UndeliverableAddress):
        mail_messages.ascii_address(address)


def test_every_recipient_gets_a_mail_once() -> None:
    one, other = Address("a@example.com"), Address("b@example.com")
    letter = MailContent(one, one, "s", cc=[other, one], bcc=[other])
    assert letter.recipients == ("a@example.com", "b@example.com")


@pytest.mark.requirement("ship-15")
async def test_server_is_tried_without_a_mail(smtp) -> None:
    credentials = {"username": "mailer", "password": PASSWORD}
    async with receiving(auth=True) as mailbox:
        assert await smtp.problem(server(mailbox, **credentials)) is None
        refused = await smtp.problem(server(mailbox, username="mailer", password="a wrong password"))
        assert refused is not None
        assert refused.startswith("535")
        assert "a wrong password" not in refused
        assert mailbox.mails == []
        gone = server(mailbox)
    for one in (gone, server(mailbox, host="no.such.host.invalid")):
        assert await smtp.problem(one)
    guarded = client(None, timeout_seconds=1, allowed_networks=())
    assert "email.allowed_networks" in str(await guarded.problem(gone)) or "loopback" in str(
        await guarded.problem(gone)
    )
