"""The address that the service listens on: available, or a message with the setting and a remedy."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

from identity.config import Config
from identity.errors import StartupError


def require_free_port(settings: Config, role: str) -> None:
    """Fail before anything is started if the port of a process with this role is not available."""
    if role == "worker":
        if settings.metrics.worker_port is not None:
            _require(worker_explained(settings), settings.metrics.worker_address, settings.metrics.worker_port)
    else:
        require_address(settings, settings.server.port)


def require_address(settings: Config, port: int = 0) -> None:
    """Raise StartupError unless this machine can listen on the address; port 0 is any free one."""
    _require(explained(settings), settings.server.address, port)


def _require(explanation: contextlib.AbstractContextManager[None], host: str, port: int) -> None:
    with explanation:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)


def explained(settings: Config) -> contextlib.AbstractContextManager[None]:
    """Raise errors of listening as StartupError with the setting and a remedy."""
    return _explained("server.address", settings.server.address, "server.port", settings.server.port)


def worker_explained(settings: Config) -> contextlib.AbstractContextManager[None]:
    """Raise errors of listening on the port of a worker as StartupError with the setting and a remedy."""
    metrics = settings.metrics
    return _explained("metrics.worker_address", metrics.worker_address, "metrics.worker_port", metrics.worker_port)


@contextlib.contextmanager
def _explained(address_name: str, address: str, port_name: str, port: int | None) -> Iterator[None]:
    where, variable = f"{address}:{port}", f"IDENTITY__{port_name.replace('.', '__').upper()}"
    try:
        yield
    except socket.gaierror as error:
        raise StartupError(f"{address_name} {address} is not an address of this machine: {error}") from error
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                remedy = (
                    f"another program uses it; stop that program, or set {port_name} ({variable}={(port or 0) + 1})"
                )
            case errno.EACCES:
                remedy = f"ports below 1024 need CAP_NET_BIND_SERVICE; set {port_name} to a higher one"
            case errno.EADDRNOTAVAIL:
                remedy = f"this machine has no such address; set {address_name} to one of its addresses or to 127.0.0.1"
            case _:
                raise
        raise StartupError(f"Cannot listen on {where}: {remedy}") from error
