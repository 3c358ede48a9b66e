"""SMTP client (RFC 5321) with the mail server settings of a tenant."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import functools
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from identity.call import Document
from identity.config.sections import Email
from identity.domain.objects import property_files
from identity.ids import Secret
from identity.outbound import connections, tls
from identity.outbound.connections import ForbiddenAddressError, NameResolver, UnknownNameError

if TYPE_CHECKING:
    import aiosmtplib


_CREDENTIALS = frozenset({530, 534, 535, 538})
"""SMTP replies that require credentials or reject them (RFC 4954 section 6)."""

_NO_PASSWORD = Secret("")

_TRIED_AT_ONCE = 20
_TRY_SECONDS = 5
"""How long a mail server that is only tried may take: check-config must end soon."""


@dataclasses.dataclass(frozen=True, slots=True)
class MailServer:
    """A mail server and the settings to connect to it; `own_name` is the name sent in EHLO."""

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
    """The result of sending a mail.

    `refused` maps permanently rejected recipients to the reply, `deferred` are recipients to retry, `reply` is the
    server's reply or a description of the failure.
    """

    refused: Mapping[str, str]
    deferred: tuple[str, ...]
    reply: str

    @property
    def is_complete(self) -> bool:
        """Whether no recipient is left to retry."""
        return not self.deferred


def is_configured(configuration: Document) -> bool:
    """Whether an emailConfiguration names a mail server: the default, localhost without a user, is none."""
    return configuration["host"] != "localhost" or bool(configuration.get("username"))


def properties(configuration: Document) -> dict[str, str]:
    """The `properties` of an emailConfiguration: lines of key=value."""
    return property_files.read(configuration.get("properties", ""))


class ForbiddenServerError(Exception):
    """The service may not send credentials to a mail server; the message is the reason."""


_FAILURES: Final = (ForbiddenServerError, ForbiddenAddressError, UnknownNameError, OSError, ValueError)
"""The failures of a connection besides those of aiosmtplib. ValueError: an address or name that SMTP cannot encode."""


class SmtpClient:
    """Sends mails, each over a new connection."""

    def __init__(self, settings: Email) -> None:
        self._settings = settings
        self._plaintext_auth_hosts = frozenset(host.lower() for host in settings.plaintext_auth_hosts)
        self._resolver = NameResolver()

    async def send(self, server: MailServer, sender: str, recipients: Sequence[str], message: bytes) -> SmtpResult:
        """Send the mail. Failures of the mail server or the network are part of the result and are not raised."""
        import aiosmtplib  # noqa: PLC0415 (loaded only when a mail is sent)

        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                return await self._deliver(server, sender, recipients, message)
        except aiosmtplib.SMTPRecipientsRefused as error:
            answers = {one.recipient: (one.code, one.message) for one in error.recipients}
            return _to_result(answers, "the server accepted no recipient")
        except aiosmtplib.SMTPResponseException as error:
            reply = f"{error.code} {error.message}"
            # Only a rejection of the mail itself is permanent: an administrator can correct everything else.
            if (
                isinstance(error, aiosmtplib.SMTPSenderRefused | aiosmtplib.SMTPDataError)
                and error.code >= 500
                and error.code not in _CREDENTIALS
            ):
                return SmtpResult(dict.fromkeys(recipients, reply), (), reply)
            return SmtpResult({}, tuple(recipients), _without_secrets(reply, server))
        except (aiosmtplib.SMTPException, *_FAILURES) as error:
            return SmtpResult({}, tuple(recipients), _reason(error, server))

    async def problems(self, servers: Sequence[MailServer]) -> list[str | None]:
        """Return `problem` of each server; a bounded number is tried at a time."""
        slots = asyncio.Semaphore(_TRIED_AT_ONCE)
        return await asyncio.gather(*(self._tried(slots, server) for server in servers))

    async def _tried(self, slots: asyncio.Semaphore, server: MailServer) -> str | None:
        async with slots:
            return await self.problem(server)

    async def problem(self, server: MailServer) -> str | None:
        """Return why a mail server cannot be used, or None: connects, negotiates TLS, and logs in; sends no mail."""
        import aiosmtplib  # noqa: PLC0415

        try:
            async with asyncio.timeout(min(self._settings.timeout_seconds, _TRY_SECONDS)), self._connected(server):
                return None
        except aiosmtplib.SMTPResponseException as error:
            return _without_secrets(f"{error.code} {error.message}", server)
        except (aiosmtplib.SMTPException, *_FAILURES) as error:
            return _reason(error, server)

    async def _deliver(self, server: MailServer, sender: str, recipients: Sequence[str], message: bytes) -> SmtpResult:
        async with self._connected(server) as client:
            answers, reply = await client.sendmail(sender, list(recipients), message)
        return _to_result({address: (answer[0], answer[1]) for address, answer in answers.items()}, reply)

    @contextlib.asynccontextmanager
    async def _connected(self, server: MailServer) -> AsyncIterator[aiosmtplib.SMTP]:
        """Provide a connection that is ready for a mail."""
        self._require_protected(server)
        connection = await connections.connect(
            self._resolver, server.host, server.port, self._settings.allowed_networks, self._settings.timeout_seconds
        )
        try:
            client = self._client(server, connection)
        except ValueError:
            connection.close()
            raise
        try:
            await client.connect()
            yield client
            # The server has accepted the mail, so a failing QUIT is irrelevant.
            with contextlib.suppress(Exception):
                await client.quit()
        finally:
            client.close()

    def _require_protected(self, server: MailServer) -> None:
        """Raise ForbiddenServerError if the credentials would be sent without TLS."""
        if server.username and server.security == "NONE" and server.host.lower() not in self._plaintext_auth_hosts:
            raise ForbiddenServerError(
                "credentials are not sent without TLS; set emailConfiguration.security to TLS or SSL, or allow the host"
                " in email.plaintext_auth_hosts"
            )

    def _client(self, server: MailServer, connection: socket.socket) -> aiosmtplib.SMTP:
        import aiosmtplib  # noqa: PLC0415

        return aiosmtplib.SMTP(
            hostname=server.host,
            sock=connection,
            username=server.username or None,
            password=str(server.password) or None,
            local_hostname=server.own_name or _host_name(),
            timeout=self._settings.timeout_seconds,
            use_tls=server.security == "SSL",
            start_tls=server.security == "TLS",
            tls_context=None if server.security == "NONE" else tls.client_context(self._settings.authorities_file),
        )


def _to_result(answers: Mapping[str, tuple[int, str]], reply: str) -> SmtpResult:
    refused = {address: f"{code} {text}" for address, (code, text) in answers.items() if code >= 500}
    deferred = tuple(address for address in answers if address not in refused)
    return SmtpResult(refused, deferred, "; ".join([reply, *(f"{code} {text}" for code, text in answers.values())]))


def _reason(error: Exception, server: MailServer) -> str:
    """The description of a failure that is no reply of the server."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ForbiddenServerError | ForbiddenAddressError | UnknownNameError):
        return str(error) or f"the host {server.host} has no address"
    return _without_secrets(f"{type(error).__name__}: {error}", server)


def _without_secrets(text: str, server: MailServer) -> str:
    """The text without the password, which a server may repeat."""
    secrets = (str(server.password), base64.b64encode(server.password.encode()).decode())
    for secret in secrets if server.password else ():
        text = text.replace(secret, "***")
    return text


@functools.cache
def _host_name() -> str:
    return socket.gethostname() or "localhost"
