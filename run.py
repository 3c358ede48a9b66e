"""The identity service's command line: parse arguments, build the service, serve until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import dataclasses
import enum
import errno
import functools
import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

try:
    import structlog
    import uvloop

    from identity import __version__, config, logs, termination
    from identity.config import EMBEDDED, Config, ConfigError
    from identity.errors import StartupError
    from identity.store import data_dir
    from identity.store.embedded.stores import ADDRESSES_FILE, AlreadyRunningError, EmbeddedStores, addresses
except ModuleNotFoundError as error:
    if (error.name or "").startswith("identity"):
        raise
    sys.exit(
        f"run.py: the package {error.name} is not installed for {sys.executable} (Python 3.11 or newer is needed).\n"
        "Run `make run`, or: python3 -m venv .venv && .venv/bin/pip install -e '.[embedded]' && .venv/bin/python run.py"
    )

EXIT_FAILURE = 1
EXIT_CONFIG = 78
"""EX_CONFIG of sysexits.h: an init system should not restart the service (docs/deploy/identity@.service)."""

_M_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h; other C libraries ignore unknown options."""

_log = structlog.get_logger("run")


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code. Errors that an operator can correct print a message."""
    _use_one_heap()
    options = _parse(arguments)
    try:
        return int(options.command(options))
    except ConfigError as error:
        print(f"run.py: the configuration is not usable:\n{error}", file=sys.stderr)
        return EXIT_CONFIG
    except StartupError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description="Run the identity service, or one of its commands.")
    parser.add_argument(
        "--config", type=Path, default=_default_config(), metavar="PATH", help="folder of identity.yaml, or a file"
    )
    parser.add_argument(
        "--role", choices=("web", "worker", "all"), default="all", help="serve HTTP, run background workers, or both"
    )
    parser.set_defaults(command=_serve)
    commands = parser.add_subparsers(title="commands")
    for name, command, text in (
        (
            "check-config",
            _check_config,
            "check the configuration, and list applications that do not comply with the profile strict",
        ),
        ("rotate-master-key", _rotate_master_key, "add a new key at the top of the master key file"),
        ("reencrypt", _reencrypt, "encrypt all stored secrets with the newest master key"),
        ("version", _version, "print the version"),
    ):
        commands.add_parser(name, help=text, description=text).set_defaults(command=command)
    commands.choices["check-config"].add_argument("--json", action="store_true", help="print the result as JSON")
    return parser.parse_args(arguments)


def _default_config() -> Path:
    """Return the folder `config` of the current folder, or else the one next to this program."""
    here = Path("config")
    return here if (here / config.FILE_NAME).exists() else Path(__file__).resolve().parent / "config"


def _version(_options: argparse.Namespace) -> int:
    print(__version__)
    return 0


def _check_config(options: argparse.Namespace) -> int:
    """Report all faults of the configuration, without starting or changing anything."""
    checked = str(config.file_of(options.config))
    try:
        settings = config.load(options.config, os.environ)
    except ConfigError as error:
        if options.json:
            print(json.dumps({"configuration": checked, "faults": error.problems}, indent=2))
            return EXIT_CONFIG
        raise
    faults = list(_faults(settings))
    applications = _applications(settings)
    if options.json:
        known = {"configuration": checked, "faults": faults, "warnings": config.warnings(settings)}
        print(json.dumps({**known, **applications}, indent=2))
    else:
        print("\n".join(_check_text(checked, faults, config.warnings(settings), applications)))
    return EXIT_FAILURE if faults else 0


def _faults(settings: Config) -> Iterator[str]:
    """Yield what prevents a start although the configuration itself is valid."""
    checks: list[Callable[[], Any]] = [
        functools.partial(data_dir.require_usable, settings.data_dir),
        functools.partial(_require_address, settings),
    ]
    if settings.master_key_file.exists():
        checks.append(functools.partial(_app().read_master_keys, settings.master_key_file))
    for check in checks:
        try:
            check()
        except StartupError as error:
            yield str(error)
    yield from uvloop.run(_app().store_faults(settings))


def _applications(settings: Config) -> dict[str, Any]:
    """Return findings about applications and issuers from a running MongoDB, or the reason why there are none."""
    try:
        running = _running(settings)
        return {
            "applications": uvloop.run(_app().profiles_of_applications(running)),
            "duplicateIssuers": uvloop.run(_app().duplicate_issuers(running)),
        }
    except StartupError as error:
        return {"applicationsUnread": str(error)}


def _check_text(
    checked: str, faults: Sequence[str], warnings: Sequence[str], applications: dict[str, Any]
) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{checked}: " + (f"{len(faults)} faults found" if faults else "no faults found")
    yield from (f"  {fault}" for fault in faults)
    yield from (f"warning: {warning}" for warning in warnings)
    if "applications" in applications:
        yield from _issuers_text(applications["duplicateIssuers"])
        yield from _profiles_text(applications["applications"])
    else:
        yield f"applications not checked: {applications['applicationsUnread']}"


def _running(settings: Config) -> Config:
    """Return the configuration with the current address of MongoDB. Raises StartupError if it is not running."""
    if settings.mongodb.uri != EMBEDDED:
        return settings
    if not (settings.data_dir / ADDRESSES_FILE).exists():
        raise StartupError(f"the embedded MongoDB of {settings.data_dir} is not running")
    return settings.with_stores(*addresses(settings.data_dir))


def _issuers_text(duplicates: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the tenants that share an issuer."""
    for duplicate in duplicates:
        tenants = ", ".join(f"{tenant['name']} ({tenant['tenantId']})" for tenant in duplicate["tenants"])
        yield f"the issuer {duplicate['issuer']} is shared by tenants: {tenants}; give each tenant its own issuer"


def _profiles_text(applications: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the applications that do not comply with strict, with their shortcomings."""
    short = [application for application in applications if application["shortcomings"]]
    counts = f"{len(applications)} applications, {len(short)} do not comply"
    yield f"{counts} with the profile strict (docs/oauth/profiles.md)"
    for application in short:
        yield f"\n{application['name']} ({application['applicationId']}) of {application['tenantName']}"
        yield from (f"  {one['path']} {one['problem']} ({one['rule']})" for one in application["shortcomings"])


def _rotate_master_key(options: argparse.Namespace) -> int:
    settings = _settings(options)
    _app().rotate_master_key(settings)
    print(
        f"{settings.master_key_file}: added a new key. Copy the file to every machine of this instance, restart all"
        " processes, then run: run.py reencrypt"
    )
    return 0


def _reencrypt(options: argparse.Namespace) -> int:
    settings = _settings(options)

    async def work() -> int:
        async with _stores(settings, may_share=True) as connected:
            return int(await _app().reencrypt(connected))

    count = termination.run(work())
    print(f"{count} documents re-encrypted; older keys may now be removed from {settings.master_key_file}")
    return 0


def _serve(options: argparse.Namespace) -> int:
    settings = _settings(options)
    if options.role != "worker":
        _require_free_port(settings)
    return uvloop.run(_Process(settings, options).run())


def _settings(options: argparse.Namespace) -> Config:
    settings = config.load(options.config, os.environ)
    logs.configure(settings.logging.level, settings.logging.format)
    data_dir.prepare(settings.data_dir)
    return settings


def _app() -> Any:
    """Import identity.app, late: the embedded servers start while it loads."""
    return importlib.import_module("identity.app")


@contextlib.asynccontextmanager
async def _stores(settings: Config, *, may_share: bool = False) -> AsyncIterator[Config]:
    """Provide the configuration with real store addresses; embedded stores run for the duration of the block."""
    wanted = (settings.mongodb.uri == EMBEDDED, settings.redis.url == EMBEDDED)
    if not any(wanted):
        yield settings
        return
    try:
        stores = await EmbeddedStores.start(settings.data_dir, *wanted)
    except AlreadyRunningError:
        if not may_share:
            raise
        yield settings.with_stores(*addresses(settings.data_dir))
        return
    try:
        yield settings.with_stores(stores.mongodb_uri, stores.redis_url)
    finally:
        await stores.stop()


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

    def __init__(self, settings: Config, options: argparse.Namespace) -> None:
        self._settings = settings
        self._options = options
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
            await self._work
        return 0

    async def _start_and_serve(self) -> None:
        async with _loading(_app) as loaded, _stores(self._settings) as connected:
            app = await loaded
            with data_dir.explained(connected.data_dir):
                service = await app.build(connected, role=self._options.role)
            try:
                with _address_explained(connected):
                    await service.start()
                _freeze_long_lived_objects()
                self._phase = _Phase.SERVING
                _notify("READY=1")
                self._announce(service)
                await self._stop_requested.wait()
                await self._drain(service)
            finally:
                self._phase = _Phase.STOPPING
                await service.stop()

    async def _drain(self, service: Any) -> None:
        """Accept no new connections and let requests in flight finish; a second signal ends the wait."""
        _notify("STOPPING=1")
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
            fresh = config.load(self._options.config, os.environ)
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
        _log.info("ready", role=self._options.role, port=service.port, version=__version__)
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


def _use_one_heap() -> None:
    """Limit glibc to one heap for all threads; call this before there are any threads.

    Memory of password hashing would otherwise stay in the heap of each thread, 19 MiB each; from the shared heap it is
    returned to the system.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)


def _freeze_long_lived_objects() -> None:
    """Exclude the objects of the start from garbage collection.

    They live as long as the process, and each full collection would stop all requests for tens of milliseconds. Young
    objects are collected less often too: a request allocates more than the default threshold of 700.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _start_text(service: Any, settings: Config) -> Iterator[str]:
    """Yield the addresses of the service; at the first start also the generated secrets, if stdout is a terminal.

    A journal, a container log or a file would keep them readable for others.
    """
    yield f"\nThe identity service {__version__} is ready{'' if service.port else ', as a worker without a port'}.\n"
    lines = {}
    if service.port:
        lines = {
            "Address": service.base_url,
            "Administration": f"{service.base_url}/admin (sign in as the administrator)",
            "Login page": f"{service.base_url}/account?client_id={_app().ADMINISTRATOR_APPLICATION_ID}",
            "Discovery": f"{service.base_url}/.well-known/openid-configuration",
            "API": f"{service.base_url}/api (with an API key as the Authorization header)",
        }
    secrets = settings.data_dir / _app().SECRETS_FILE
    if service.announcement and sys.stdout.isatty():
        lines |= service.announcement
    if secrets.exists():
        lines["Stored in"] = f"{secrets} (administrator and keys of the first start; readable only by this user)"
    lines["Data"] = str(settings.data_dir)
    lines["Stop with"] = f"Ctrl-C, or kill {os.getpid()}"
    width = max(map(len, lines)) + 2
    yield from (f"  {name:<{width}}{text}" for name, text in lines.items())


def _differences(one: Config, other: Config) -> Iterator[str]:
    """Yield the names of the settings in which two configurations differ."""
    for key, _ in config.settings():
        path = key.split(".")
        if functools.reduce(getattr, path, one) != functools.reduce(getattr, path, other):
            yield key


def _require_free_port(settings: Config) -> None:
    """Fail before anything is started if the port is not available."""
    _require_address(settings, settings.server.port)


def _require_address(settings: Config, port: int = 0) -> None:
    """Raise StartupError unless this machine can listen on the address; port 0 is any free one."""
    with _address_explained(settings):
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.server.address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)


@contextlib.contextmanager
def _address_explained(settings: Config) -> Iterator[None]:
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


def _notify(state: str) -> None:
    """Notify systemd, if it started the process (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, contextlib.suppress(OSError):
            channel.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
