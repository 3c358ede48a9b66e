"""Handing a mail to a mail server (RFC 5321), with the settings of a tenant."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import functools
import socket
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from identity.call import Document
from identity.domain import properties as properties_files
from identity.ids import Secret

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
class Result:
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


class Smtp:
    """Sends mails, each over a connection of its own."""

    def __init__(self, *, timeout_seconds: float, authorities_file: Path | None) -> None:
        """`authorities_file` holds certificate authorities that are trusted beside the system's."""
        self._timeout_seconds = timeout_seconds
        self._authorities_file = authorities_file

    async def send(self, server: MailServer, sender: str, recipients: Sequence[str], message: bytes) -> Result:
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
                return Result(dict.fromkeys(recipients, said), (), said)
            return Result({}, tuple(recipients), _without_secrets(said, server))
        except TimeoutError:
            return Result({}, tuple(recipients), "no answer in time")
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            # ValueError: an address or a name that cannot be put on the wire.
            said = f"{type(error).__name__}: {error}"
            return Result({}, tuple(recipients), _without_secrets(said, server))

    async def _converse(self, server: MailServer, sender: str, recipients: Sequence[str], message: bytes) -> Result:
        client = self._client(server)
        try:
            await client.connect()
            answers, said = await client.sendmail(sender, list(recipients), message)
            # It is theirs now: what goes wrong with the goodbye changes nothing.
            with contextlib.suppress(Exception):
                await client.quit()
        finally:
            client.close()
        return _judged({address: (answer[0], answer[1]) for address, answer in answers.items()}, said)

    def _client(self, server: MailServer) -> aiosmtplib.SMTP:
        import aiosmtplib  # noqa: PLC0415

        return aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            username=server.username or None,
            password=str(server.password) or None,
            local_hostname=server.own_name or _host_name(),
            timeout=self._timeout_seconds,
            use_tls=server.security == "SSL",
            start_tls=server.security == "TLS",
            tls_context=None if server.security == "NONE" else _tls_context(self._authorities_file),
        )


def _judged(answers: Mapping[str, tuple[int, str]], said: str) -> Result:
    refused = {address: f"{code} {text}" for address, (code, text) in answers.items() if code >= 500}
    deferred = tuple(address for address in answers if address not in refused)
    return Result(refused, deferred, "; ".join([said, *(f"{code} {text}" for code, text in answers.values())]))


def _without_secrets(text: str, server: MailServer) -> str:
    """The text without the password, which a server may say again."""
    secrets = (str(server.password), base64.b64encode(server.password.encode()).decode())
    for secret in secrets if server.password else ():
        text = text.replace(secret, "***")
    return text


@functools.cache
def _host_name() -> str:
    return socket.gethostname() or "localhost"


@functools.cache
def _tls_context(authorities_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if authorities_file is not None:
        context.load_verify_locations(authorities_file)
    return context
