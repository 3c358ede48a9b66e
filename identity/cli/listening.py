"""The address that the service listens on: available, or a message with the setting and a remedy."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

from identity.config import Config
from identity.errors import StartupError


def require_free_port(settings: Config) -> None:
    """Fail before anything is started if the port is not available."""
    require_address(settings, settings.server.port)


def require_address(settings: Config, port: int = 0) -> None:
    """Raise StartupError unless this machine can listen on the address; port 0 is any free one."""
    with explained(settings):
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.server.address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)


@contextlib.contextmanager
def explained(settings: Config) -> Iterator[None]:
    """Raise errors of listening as StartupError with the setting and a remedy."""
    where = f"{settings.server.address}:{settings.server.port}"
    try:
        yield
    except socket.gaierror as error:
        raise StartupError(
            f"server.address {settings.server.address} is not an address of this machine: {error}"
        ) from error
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                remedy = "another program uses it; stop that program, or set server.port (IDENTITY__SERVER__PORT=9012)"
            case errno.EACCES:
                remedy = "ports below 1024 need CAP_NET_BIND_SERVICE; set server.port to a higher one, behind nginx"
            case errno.EADDRNOTAVAIL:
                remedy = "this machine has no such address; set server.address to one of its addresses or to 127.0.0.1"
            case _:
                raise
        raise StartupError(f"Cannot listen on {where}: {remedy}") from error
