"""LDAP client (RFC 4511) that authenticates users: search the entry as a system account, then bind as the entry.

The filter is built from values, not from text, so that a login id cannot change it. An empty password is never sent: a
server treats such a bind as anonymous and accepts it (RFC 4513 section 5.1.2).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

import sansldap
from sansldap import LDAPResultCode

from identity.call import Document
from identity.config.sections import Connectors
from identity.outbound import connections, tls
from identity.outbound.connections import ForbiddenAddressError, NameResolver, UnknownNameError
from identity.outbound.directories import Directory, LdapError

M = TypeVar("M", bound=sansldap.LDAPMessage)

_MAX_BYTES: Final = 1_048_576
_MAX_ENTRIES: Final = 2
_WRONG_PASSWORD: Final = frozenset(
    {LDAPResultCode.INVALID_CREDENTIALS, LDAPResultCode.INAPPROPRIATE_AUTHENTICATION, LDAPResultCode.NO_SUCH_OBJECT}
)
_BINARY: Final = ";binary"


class LdapClient:
    """Authenticates users, each over a new connection."""

    def __init__(self, settings: Connectors) -> None:
        self._settings = settings
        self._resolver = NameResolver()

    async def authenticate(self, directory: Directory, login_id: str, password: str) -> Document | None:
        """Return the requested attributes of the user's entry; None for an unknown user or a wrong password.

        An attribute has its value, or a list of several; `;binary` ones are Base64. Raises LdapError.
        """
        if not password or not login_id:
            return None
        try:
            async with self._connected(directory) as connection, asyncio.timeout(directory.read_timeout_ms / 1000):
                return await _authenticate(connection, directory, login_id, password)
        except TimeoutError as error:
            raise LdapError("no answer in time") from error
        except UnknownNameError as error:
            raise LdapError(f"the host {directory.host} has no address") from error
        except ssl.SSLError as error:
            raise LdapError(f"TLS failed: {error.reason or type(error).__name__}") from error
        except (ForbiddenAddressError, OSError, sansldap.LDAPError, ValueError) as error:
            raise LdapError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Release the resolver."""
        await self._resolver.close()

    @contextlib.asynccontextmanager
    async def _connected(self, directory: Directory) -> AsyncIterator[_Connection]:
        """Provide a connection, with TLS where the directory requires it, within the connect timeout."""
        seconds = directory.connect_timeout_ms / 1000
        async with asyncio.timeout(seconds):
            plain = await connections.connect(
                self._resolver, directory.host, directory.port, self._settings.allowed_networks, seconds
            )
            try:
                reader, writer = await self._secured(directory, plain)
            except BaseException:
                plain.close()
                raise
        try:
            yield _Connection(reader, writer)
        finally:
            writer.transport.abort()

    async def _secured(
        self, directory: Directory, plain: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if directory.security == "None":
            address = ipaddress.ip_address(plain.getpeername()[0])
            if not any(address in network for network in self._settings.allowed_networks):
                raise LdapError("passwords are sent without TLS only in connectors.allowed_networks")
            return await asyncio.open_connection(sock=plain)
        if directory.security == "StartTLS":
            await _start_tls(plain)
        context = tls.client_context(self._settings.authorities_file)
        return await asyncio.open_connection(sock=plain, ssl=context, server_hostname=directory.host)


class _Connection:
    """An LDAP session over a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._session = sansldap.LDAPClient()
        self._received: list[sansldap.LDAPMessage] = []
        self._bytes = 0

    async def bind(self, dn: str, password: str) -> LDAPResultCode:
        """Bind with a password, and return the result."""
        self._session.bind_simple(dn, password)
        response = await self._exchange(sansldap.BindResponse)
        return response.result.result_code

    async def search(self, directory: Directory, login_id: str) -> list[sansldap.SearchResultEntry]:
        """Return the entries with a login id, two at most. Referrals are not followed."""
        self._session.search_request(
            directory.base,
            size_limit=_MAX_ENTRIES,
            time_limit=max(1, directory.read_timeout_ms // 1000),
            filter=sansldap.FilterEquality(directory.login_id_attribute, login_id.encode()),
            attributes=[name.removesuffix(_BINARY) for name in directory.attributes],
        )
        done = await self._exchange(sansldap.SearchResultDone)
        code = done.result.result_code
        if code not in {LDAPResultCode.SUCCESS, LDAPResultCode.SIZE_LIMIT_EXCEEDED, LDAPResultCode.NO_SUCH_OBJECT}:
            raise LdapError(f"the search failed: {code.name}")
        return [message for message in self._received if isinstance(message, sansldap.SearchResultEntry)]

    async def _exchange(self, expected: type[M]) -> M:
        """Send what the session has to send, and receive until the message that ends the operation."""
        self._received.clear()
        self._writer.write(self._session.data_to_send())
        await self._writer.drain()
        while True:
            received = await self._reader.read(65_536)
            self._bytes += len(received)
            if not received:
                raise LdapError("the server closed the connection")
            if self._bytes > _MAX_BYTES:
                raise LdapError(f"the server sent more than {_MAX_BYTES} bytes")
            self._received += self._session.receive(received)
            for message in self._received:
                if isinstance(message, expected):
                    return message


async def _start_tls(plain: socket.socket) -> None:
    """Request TLS (RFC 4511 section 4.14) on a socket of which nothing else was read.

    What arrives after the response belongs to TLS: more plaintext, which an attacker could inject, fails the handshake.
    """
    loop, session = asyncio.get_running_loop(), sansldap.LDAPClient()
    messages: list[sansldap.LDAPMessage] = []
    session.extended_request(sansldap.ExtendedOperations.LDAP_START_TLS.value)
    await loop.sock_sendall(plain, session.data_to_send())
    received = b""
    while not messages:
        chunk = await loop.sock_recv(plain, 4096)
        received += chunk
        if not chunk or len(received) > 4096:
            raise LdapError("the server did not answer StartTLS")
        messages = session.receive(chunk)
    response = messages[0]
    if len(messages) != 1 or not isinstance(response, sansldap.ExtendedResponse):
        raise LdapError("the server answered StartTLS with something else")
    if response.result.result_code != LDAPResultCode.SUCCESS:
        raise LdapError(f"the server refused StartTLS: {response.result.result_code.name}")


async def _authenticate(connection: _Connection, directory: Directory, login_id: str, password: str) -> Document | None:
    code = await connection.bind(directory.system_account_dn, directory.system_account_password)
    if code != LDAPResultCode.SUCCESS:
        raise LdapError(f"the system account could not bind: {code.name}")
    prefix = f"{directory.identifying_attribute}=".lower()
    found = [one for one in await connection.search(directory, login_id) if one.object_name.lower().startswith(prefix)]
    if len(found) > 1:
        raise LdapError("several entries have the login id")
    if not found:
        return None
    code = await connection.bind(found[0].object_name, password)
    if code in _WRONG_PASSWORD:
        return None
    if code != LDAPResultCode.SUCCESS:
        raise LdapError(f"the user could not bind: {code.name}")
    return _attributes(found[0], directory.attributes)


def _attributes(entry: sansldap.SearchResultEntry, requested: Sequence[str]) -> Document:
    """Return the values of the requested attributes, under the names of the request."""
    by_name = {one.name.lower().removesuffix(_BINARY): one.values for one in entry.attributes}
    found: Document = {}
    for name in requested:
        values = by_name.get(name.lower().removesuffix(_BINARY), [])
        if name.lower().endswith(_BINARY):
            texts = [base64.b64encode(value).decode() for value in values]
        else:
            texts = [value.decode(errors="replace") for value in values]
        if texts:
            found[name] = texts[0] if len(texts) == 1 else texts
    return found
