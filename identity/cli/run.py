"""The command run: serve until the process is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import faulthandler
import functools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import click
import structlog
import uvloop

from identity import __version__, config, logs
from identity.cli import listening, memory, settings, systemd
from identity.cli.settings import Options
from identity.config import Config, ConfigError
from identity.store import data_dir

ROLES = ("web", "worker", "all")

_log = structlog.get_logger("run")


@click.command("run")
@click.option(
    "--role", type=click.Choice(ROLES), default="all", show_default=True, help="Serve HTTP, run workers, or both."
)
@click.option(
    "--quiesced", is_flag=True, help="Send no webhook, mail or message until identity release: for a restored database."
)
@click.pass_obj
def command(options: Options, role: str, *, quiesced: bool) -> int:
    """Start the service."""
    return serve(options, role, quiesced=quiesced)


def serve(options: Options, role: str, *, quiesced: bool = False) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    loaded = _with_flag(settings.load(options), quiesced=quiesced)
    listening.require_free_port(loaded, role)
    # systemd's watchdog ends a process whose event loop is blocked with SIGABRT: the log then shows where.
    faulthandler.enable()
    return uvloop.run(_Process(loaded, options, role, is_quiesced=quiesced).run())


def _with_flag(loaded: Config, *, quiesced: bool) -> Config:
    """Return the configuration with the setting that the option --quiesced stands for."""
    if not quiesced:
        return loaded
    return dataclasses.replace(loaded, server=dataclasses.replace(loaded.server, quiesced=True))


@contextlib.asynccontextmanager
async def _loading(load: Callable[[], Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Run `load` in a thread during the block; it is not awaited if the block fails."""
    task = asyncio.create_task(asyncio.to_thread(load))
    try:
        yield task
    finally:
        task.cancel()


class _Phase(enum.Enum):
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class _Process:
    """A serving process from start to end, including its signal handlers."""

    def __init__(self, loaded: Config, options: Options, role: str, *, is_quiesced: bool) -> None:
        self._settings = loaded
        self._options = options
        self._role = role
        self._is_quiesced = is_quiesced
        self._phase = _Phase.STARTING
        self._stop_requested = asyncio.Event()
        self._second_stop_requested = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Serve until SIGTERM or SIGINT, which also cancel a start in progress."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        loop.set_exception_handler(_on_loop_error)
        self._work = asyncio.create_task(self._start_and_serve())
        with contextlib.suppress(asyncio.CancelledError):
            async with systemd.watchdog():
                await self._work
        return 0

    async def _start_and_serve(self) -> None:
        async with _loading(settings.app) as loaded, settings.connected(self._settings) as connected:
            app = await loaded
            with data_dir.explained(connected.data_dir):
                service = await app.build(connected, role=self._role)
            try:
                explained = listening.worker_explained if self._role == "worker" else listening.explained
                with explained(connected):
                    await service.start()
                memory.freeze_long_lived_objects()
                self._phase = _Phase.SERVING
                systemd.notify("READY=1")
                self._announce(service)
                await self._stop_requested.wait()
                await self._drain(service)
            finally:
                self._phase = _Phase.STOPPING
                await service.stop()

    async def _drain(self, service: Any) -> None:
        """Accept no new connections and let requests in flight finish; a second signal ends the wait."""
        systemd.notify("STOPPING=1")
        _log.info("stopping", shutdown_seconds=self._settings.server.shutdown_seconds)
        drained = asyncio.create_task(service.drain(self._settings.server.shutdown_seconds))
        interrupted = asyncio.create_task(self._second_stop_requested.wait())
        await asyncio.wait({drained, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        for task in (drained, interrupted):
            task.cancel()
        await asyncio.gather(drained, interrupted, return_exceptions=True)

    def _stop(self) -> None:
        if self._phase is _Phase.STARTING and self._work:
            self._phase = _Phase.STOPPING
            self._work.cancel()
        elif self._stop_requested.is_set():
            self._second_stop_requested.set()
        self._stop_requested.set()

    def _reload(self) -> None:
        """Apply settings that can change at run time, and log those that need a restart."""
        try:
            fresh = _with_flag(config.load(self._options.config, os.environ), quiesced=self._is_quiesced)
        except ConfigError as error:
            _log.error("configuration not reloaded", faults=error.problems)
            return
        changed = sorted(_differences(self._settings, fresh))
        self._settings = dataclasses.replace(self._settings, logging=fresh.logging)
        logs.configure(fresh.logging.level, fresh.logging.format)
        _log.info("configuration reloaded", changed=[name for name in changed if name.startswith("logging.")])
        waiting = [name for name in changed if not name.startswith("logging.")]
        if waiting:
            _log.warning("these settings require a restart", settings=waiting)

    def _announce(self, service: Any) -> None:
        _log.info("ready", role=self._role, port=service.port, version=__version__)
        for warning in config.warnings(self._settings) if service.port else ():
            _log.warning(warning)
        print("\n".join(_start_text(service, self._settings)), flush=True)


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log unhandled errors of the event loop, except a harmless one of uvloop.

    uvloop's TLS raises it when it responds to data that arrives after its transport was closed.
    """
    error = context.get("exception")
    if isinstance(error, RuntimeError) and "the handler is closed" in str(error):
        _log.debug("a closed TLS connection was written to", error=str(error))
    else:
        loop.default_exception_handler(context)


def _differences(one: Config, other: Config) -> Iterator[str]:
    """Yield the names of the settings in which two configurations differ."""
    for key, _ in config.settings():
        path = key.split(".")
        if functools.reduce(getattr, path, one) != functools.reduce(getattr, path, other):
            yield key


def _start_text(service: Any, loaded: Config) -> Iterator[str]:
    """Yield the addresses of the service; at the first start also the generated secrets, if stdout is a terminal.

    A journal, a container log or a file would keep them readable for others.
    """
    yield f"\nThe identity service {__version__} is ready{'' if service.port else ', as a worker'}.\n"
    named = {}
    if service.monitoring_url:
        named["Monitoring"] = f"{service.monitoring_url}/api/prometheus/metrics and /api/health"
    if service.port:
        named = {
            "Address": service.base_url,
            "Administration": f"{service.base_url}/admin (sign in as the administrator)",
            "Login page": f"{service.base_url}/account?client_id={settings.app().ADMINISTRATOR_APPLICATION_ID}",
            "Discovery": f"{service.base_url}/.well-known/openid-configuration",
            "API": f"{service.base_url}/api (with an API key as the Authorization header)",
        }
    secrets = loaded.data_dir / data_dir.SECRETS_FILE
    if service.announcement and sys.stdout.isatty():
        named |= service.announcement
    if secrets.exists():
        named["Stored in"] = f"{secrets} (administrator and keys of the first start; readable only by this user)"
    if loaded.server.quiesced:
        named["Quiesced"] = "sends no webhook, mail or message until: identity release"
    named["Data"] = str(loaded.data_dir)
    named["Stop with"] = f"Ctrl-C, or kill {os.getpid()}"
    width = max(map(len, named)) + 2
    yield from (f"  {name:<{width}}{text}" for name, text in named.items())
