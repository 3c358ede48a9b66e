"""Accepting connections within the limit of open files.

Without a free file descriptor `accept` fails while the connection stays in the queue, so that a plain event loop calls
it again and again, and logs each failure. Here the server stops listening for a moment instead. It also leaves a part
of the descriptors to stores and outgoing requests: connections beyond the limit wait in the queue of the kernel.
"""

from __future__ import annotations

import errno
import resource
import socket
import time
from collections.abc import Callable
from typing import Any, Final

import structlog
import tornado.ioloop

_log = structlog.get_logger(__name__)

_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BATCH: Final = 128
"""How many connections are accepted before the event loop runs other handlers; the same as Tornado."""
_PAUSE_SECONDS: Final = 0.2
_LOG_SECONDS: Final = 60.0
_RESERVED_FILES: Final = 512
"""The descriptors for stores, outgoing requests and files; at most half of all."""


def maximum_connections() -> int:
    """Return how many connections this process accepts at the same time."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else max(soft - _RESERVED_FILES, soft // 2)


class Accepting:
    """Accepts the connections of a listening socket, and pauses while the process has no file descriptors for them."""

    def __init__(
        self,
        listener: socket.socket,
        accepted: Callable[[socket.socket, Any], None],
        has_room: Callable[[], bool],
    ) -> None:
        self._listener = listener
        self._accepted = accepted
        self._has_room = has_room
        self._is_stopped = False
        self._logged = -_LOG_SECONDS
        self._loop = tornado.ioloop.IOLoop.current()
        self._timer: object | None = None
        self._listen()

    def stop(self) -> None:
        """Accept no more connections."""
        self._is_stopped = True
        if self._timer is None:
            self._loop.remove_handler(self._listener)
        else:
            self._loop.remove_timeout(self._timer)

    def _listen(self) -> None:
        self._timer = None
        self._loop.add_handler(self._listener, self._accept, tornado.ioloop.IOLoop.READ)

    def _accept(self, _listener: socket.socket, _events: int) -> None:
        for _ in range(_BATCH):
            if self._is_stopped:
                return
            if not self._has_room():
                self._pause("the limit of open files leaves no room for more connections")
                return
            try:
                connection, address = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                self._pause(str(error.strerror))
                return
            self._accepted(connection, address)

    def _pause(self, reason: str) -> None:
        self._loop.remove_handler(self._listener)
        self._timer = self._loop.call_later(_PAUSE_SECONDS, self._listen)
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            _log.error(
                "connections wait: no file descriptors",
                reason=reason,
                limit=soft,
                remedy="raise LimitNOFILE or ulimit -n",
            )
