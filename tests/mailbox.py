"""An SMTP server for tests, with TLS and AUTH. It keeps received mails and can refuse addresses."""

from __future__ import annotations

import asyncio
import dataclasses
import email
import email.policy
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult

PASSWORD = "the password of the mail server"
_PATIENCE_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Received:
    """A received mail."""

    sender: str
    recipients: list[str]
    message: EmailMessage
    raw: bytes
    is_encrypted: bool
    username: str | None

    def part(self, subtype: str) -> str:
        found = self.message.get_body((subtype,))
        assert found is not None, subtype
        return str(found.get_content())


class Mailbox:
    """The handler of the mail server, and its address."""

    def __init__(self) -> None:
        self.mails: list[Received] = []
        self.refusals: dict[str, str] = {}
        """Responses by address, or by `DATA`."""
        self.hangs = False
        self.port = 0
        self.connections = 0
        self.names: list[str] = []
        self._changed = asyncio.Event()

    def configuration(self, **members: Any) -> dict[str, Any]:
        """An emailConfiguration with this server."""
        return {"host": "127.0.0.1", "port": self.port, "defaultFromEmail": "service@example.com", **members}

    async def wait_for(self, count: int) -> list[Received]:
        """Wait for this number of mails; return them."""
        await self.until(lambda: len(self.mails) >= count)
        return self.mails

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not condition():
                await self._changed.wait()
                self._changed.clear()

    # Hooks of aiosmtpd.

    async def handle_EHLO(  # noqa: N802 (named by the server)
        self, server: Any, session: Any, envelope: Any, hostname: str, responses: list[str]
    ) -> Any:
        self.connections += 1
        self.names.append(hostname)
        self._changed.set()
        if self.hangs:
            await asyncio.sleep(_PATIENCE_SECONDS)
        session.host_name = hostname
        return responses

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if address in self.refusals:
            self._changed.set()
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if "DATA" in self.refusals:
            self._changed.set()
            return self.refusals["DATA"]
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        username = None if session.auth_data is None else session.auth_data.login.decode()
        encrypted = session.ssl is not None or server.transport.get_extra_info("sslcontext") is not None
        received = Received(envelope.mail_from, list(envelope.rcpt_tos), message, envelope.content, encrypted, username)
        self.mails.append(received)
        self._changed.set()
        return "250 OK"


def _authenticated(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    return AuthResult(success=data.password == PASSWORD.encode(), handled=False, auth_data=data)


@asynccontextmanager
async def receiving(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, auth: bool = False, port: int = 0
) -> AsyncIterator[Mailbox]:
    """A mail server on a free port, or a given one."""
    mailbox = Mailbox()
    settings: dict[str, Any] = {"hostname": "mail.test", "enable_SMTPUTF8": False}
    if starttls is not None:
        settings |= {"tls_context": starttls, "require_starttls": True}
    if auth:
        settings |= {"authenticator": _authenticated, "auth_required": True, "auth_require_tls": False}
    loop = asyncio.get_running_loop()

    def session() -> SMTP:
        with warnings.catch_warnings(action="ignore"):  # AUTH without TLS
            return SMTP(mailbox, loop=loop, **settings)

    server = await loop.create_server(session, "127.0.0.1", port, ssl=tls)
    mailbox.port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox
    finally:
        server.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until an asynchronous condition holds."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not await condition():
            await asyncio.sleep(0.02)
