"""Handing a mail to a mail server (RFC 5321), with the settings of a tenant."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import functools
import ipaddress
import socket
import ssl
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from identity.call import Document
from identity.domain.objects import property_files as properties_files
from identity.ids import Secret
from identity.outbound.addresses import Network, forbidden_reason
from identity.outbound.name_resolution import Addresses, NameResolver, UnknownNameError

if TYPE_CHECKING:
    import aiosmtplib


_CREDENTIALS = frozenset({530, 534, 535, 538})
"""Answers that ask for a name and password, or for other ones (RFC 4954 section 6)."""

_NO_PASSWORD = Secret("")


@dataclasses.dataclass(frozen=True, slots=True)
class MailServer:
    """A mail server and how to talk to it."""

    host: str
    port: int
    security: str
    username: str = ""
    password: Secret = _NO_PASSWORD
    own_name: str = ""

    @classmethod
    def of(cls, configuration: Document) -> MailServer:
        """The mail server of a tenant's emailConfiguration."""
        return cls(
            configuration["host"],
            configuration["port"],
            configuration["security"],
            configuration.get("username", ""),
            Secret(configuration.get("password", "")),
            properties(configuration).get("mail.smtp.localhost", ""),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SmtpResult:
    """What became of a mail: who refused it for good, who may take it later, and what was said."""

    refused: Mapping[str, str]
    deferred: tuple[str, ...]
    said: str

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be tried."""
        return not self.deferred


def properties(configuration: Document) -> dict[str, str]:
    """The `properties` of an emailConfiguration, which are lines of key=value."""
    return properties_files.read(configuration.get("properties", ""))


class ForbiddenServerError(Exception):
    """A mail server that may not be connected to, or not with these settings; the message says why."""


class SmtpClient:
    """Sends mails, each over a connection of its own."""

    def __init__(
        self,
        *,
        timeout_seconds: float,
        authorities_file: Path | None,
        allowed_networks: Sequence[Network] = (),
        plaintext_auth_hosts: Collection[str] = (),
    ) -> None:
        """`authorities_file` holds certificate authorities to trust in addition to those of the system.

        `allowed_networks` are the non-public networks that mail servers may be in, `plaintext_auth_hosts` the hosts
        that credentials may be sent to without TLS.
        """
        self._timeout_seconds = timeout_seconds
        self._authorities_file = authorities_file
        self._allowed_networks = allowed_networks
        self._plaintext_auth_hosts = frozenset(host.lower() for host in plaintext_auth_hosts)
        self._names = NameResolver()

    async def send(self, server: MailServer, sender: str, recipients: Sequence[str], message: bytes) -> SmtpResult:
        """Hand the mail over. Never raises for what a mail server or the way to it may do."""
        import aiosmtplib  # noqa: PLC0415 (only who sends mail pays for it)

        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._converse(server, sender, recipients, message)
        except aiosmtplib.SMTPRecipientsRefused as error:
            answers = {one.recipient: (one.code, one.message) for one in error.recipients}
            return _judged(answers, "nobody was accepted")
        except aiosmtplib.SMTPResponseException as error:
            said = f"{error.code} {error.message}"
            # Only what is said of the mail itself is for good: the rest an administrator can put right.
            if (
                isinstance(error, aiosmtplib.SMTPSenderRefused | aiosmtplib.SMTPDataError)
                and error.code >= 500
                and error.code not in _CREDENTIALS
            ):
                return SmtpResult(dict.fromkeys(recipients, said), (), said)
            return SmtpResult({}, tuple(recipients), _without_secrets(said, server))
        except TimeoutError:
            return SmtpResult({}, tuple(recipients), "no answer in time")
        except (ForbiddenServerError, UnknownNameError) as error:
            return SmtpResult({}, tuple(recipients), str(error) or f"the host {server.host} has no address")
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            # ValueError: an address or a name that cannot be put on the wire.
            said = f"{type(error).__name__}: {error}"
            return SmtpResult({}, tuple(recipients), _without_secrets(said, server))

    async def _converse(self, server: MailServer, sender: str, recipients: Sequence[str], message: bytes) -> SmtpResult:
        self._require_protected(server)
        connection = await self._connected(server)
        try:
            client = self._client(server, connection)
        except ValueError:
            connection.close()
            raise
        try:
            await client.connect()
            answers, said = await client.sendmail(sender, list(recipients), message)
            # It is theirs now: what goes wrong with the goodbye changes nothing.
            with contextlib.suppress(Exception):
                await client.quit()
        finally:
            client.close()
        return _judged({address: (answer[0], answer[1]) for address, answer in answers.items()}, said)

    def _require_protected(self, server: MailServer) -> None:
        """Raise ForbiddenServerError where the credentials would be sent without TLS."""
        if server.username and server.security == "NONE" and server.host.lower() not in self._plaintext_auth_hosts:
            raise ForbiddenServerError(
                "credentials are not sent without TLS; set emailConfiguration.security to TLS or SSL, or allow the host"
                " in email.plaintext_auth_hosts"
            )

    async def _connected(self, server: MailServer) -> socket.socket:
        """A connection to the first address of the server that accepts one, of those that the guard allows."""
        addresses = await self._addresses(server.host)
        reasons = {address: forbidden_reason(address, self._allowed_networks) for address in addresses}
        permitted = [address for address, reason in reasons.items() if reason is None]
        if not permitted:
            raise ForbiddenServerError(str(reasons[addresses[0]]))
        for address in permitted[:-1]:
            with contextlib.suppress(OSError):
                return await _connection(address, server.port)
        return await _connection(permitted[-1], server.port)

    async def _addresses(self, host: str) -> Addresses:
        try:
            return (str(ipaddress.ip_address(host)),)
        except ValueError:
            return await self._names.addresses(host, self._timeout_seconds)

    def _client(self, server: MailServer, connection: socket.socket) -> aiosmtplib.SMTP:
        import aiosmtplib  # noqa: PLC0415

        return aiosmtplib.SMTP(
            hostname=server.host,
            sock=connection,
            username=server.username or None,
            password=str(server.password) or None,
            local_hostname=server.own_name or _host_name(),
            timeout=self._timeout_seconds,
            use_tls=server.security == "SSL",
            start_tls=server.security == "TLS",
            tls_context=None if server.security == "NONE" else _tls_context(self._authorities_file),
        )


def _judged(answers: Mapping[str, tuple[int, str]], said: str) -> SmtpResult:
    refused = {address: f"{code} {text}" for address, (code, text) in answers.items() if code >= 500}
    deferred = tuple(address for address in answers if address not in refused)
    return SmtpResult(refused, deferred, "; ".join([said, *(f"{code} {text}" for code, text in answers.values())]))


def _without_secrets(text: str, server: MailServer) -> str:
    """The text without the password, which a server may say again."""
    secrets = (str(server.password), base64.b64encode(server.password.encode()).decode())
    for secret in secrets if server.password else ():
        text = text.replace(secret, "***")
    return text


async def _connection(address: str, port: int) -> socket.socket:
    """A non-blocking socket that is connected to a literal address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except BaseException:
        connection.close()
        raise
    return connection


@functools.cache
def _host_name() -> str:
    return socket.gethostname() or "localhost"


@functools.cache
def _tls_context(authorities_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if authorities_file is not None:
        context.load_verify_locations(authorities_file)
    return context
