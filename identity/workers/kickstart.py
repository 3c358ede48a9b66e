"""Runs the kickstart file once on an untouched instance: creates its API keys, then sends its requests."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import orjson
import structlog

from identity import background_tasks
from identity.call import AnonymousCaller, Call, Document, Origin
from identity.coercion import coerce
from identity.domain.objects import request_members
from identity.domain.objects.kickstart import Kickstart, Request, Source
from identity.errors import Invalid, StartupError
from identity.events.changes import Change, Event
from identity.ids import new_id
from identity.operations.configuration import api_keys, bootstrap
from identity.outbound.http import HttpClient, OutboundError
from identity.outbound.http import Request as OutboundRequest
from identity.services import Services
from identity.store.instance import LEASE_SECONDS, KickstartState
from identity.store.mongo import STORE_ERRORS

_log = structlog.get_logger(__name__)

Keep = Callable[[Mapping[str, str]], None]
"""Stores the announced values of a kickstart, or removes them if there are none."""

_WAIT_SECONDS = 0.2
_BOOLEAN = {"type": "boolean"}

# The HTTP client blocks loopback addresses by default; the kickstart requests go to this process.
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


def read_source(file: Path, environ: Mapping[str, str]) -> Source:
    """The kickstart file. Raises StartupError when it cannot be read."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(
            f"The kickstart file {file} cannot be read: {error}. Set kickstart.file to null for none."
        ) from error
    return Source(text, functools.partial(_read_included, file.parent), environ)


def _read_included(folder: Path, name: str) -> str:
    return (folder / name).read_text("utf-8")


class _LostClaimError(StartupError):
    """Another process has taken the kickstart over, and with it the stored credentials."""


class Claim:
    """The lease of the kickstart of this instance, which `claimed` extends while the process runs."""

    def __init__(self, services: Services) -> None:
        self.owner = new_id()
        self._instance = services.runtime.instance

    async def require(self) -> None:
        """Extend the lease. Raises StartupError if another process has taken the kickstart over."""
        if not await self._instance.extend_kickstart(self.owner):
            raise _LostClaimError(
                "kickstart: this process was suspended for longer than its lease, and another one has taken the first"
                " start over. Start this process again."
            )

    async def extend_forever(self) -> None:
        """Extend the lease periodically; whether that succeeded is checked before each request."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 4)
            with contextlib.suppress(*STORE_ERRORS):
                await self._instance.extend_kickstart(self.owner)


@contextlib.asynccontextmanager
async def claimed(services: Services) -> AsyncIterator[Claim | None]:
    """Lease the kickstart for the block; provide None if it is done or has failed.

    While another process has it, this waits. What a killed process has created is deleted first: no process serves
    before the kickstart is done, so that nothing else can be in the database.
    """
    claim = Claim(services)
    state = await _claim(services, claim)
    if state == "failed":
        _log.warning(
            "an earlier kickstart failed; the instance is left as it is",
            remedy=f"drop the database {services.config.mongodb.database} and start again with a corrected file, or"
            " create an administrator: identity admin create-admin EMAIL --local",
        )
    if state in {"failed", "done"}:
        yield None
        return
    extending = asyncio.create_task(claim.extend_forever(), name="extend the lease of the kickstart")
    try:
        if state == "interrupted":
            # MongoDB aborts an open transaction of the killed process, which holds its documents, after a minute.
            _log.warning(
                "the first start was interrupted; what it had created is deleted, and it begins again. That may take"
                " about 90 seconds"
            )
            await services.runtime.instance.clear_database()
        yield claim
    finally:
        await background_tasks.end([extending])


async def _claim(services: Services, claim: Claim) -> KickstartState:
    """Wait until no other process has the kickstart."""
    is_reported = False
    while (state := await services.runtime.instance.claim_kickstart(claim.owner)) == "elsewhere":
        if not is_reported:
            _log.info(
                "waiting for the first start of another process; one that was killed delays this start",
                at_most_seconds=LEASE_SECONDS,
            )
        is_reported = True
        await asyncio.sleep(_WAIT_SECONDS)
    return state


async def run(
    services: Services, claim: Claim, source: Source, base_url: str, local_url: str, keep: Keep
) -> Mapping[str, str]:
    """Run the kickstart unless the instance is set up already; return the values that the operator is shown once.

    `base_url` is the public URL of the instance, `local_url` the address on which this process serves requests. `keep`
    stores the values before they take effect, so that they are known whenever the process is killed.

    Raises:
        StartupError: the file is invalid, or a request failed; the message has its number and the response.
    """
    origin = Origin("127.0.0.1", "", new_id(), base_url)
    call = Call(None, AnonymousCaller(name="kickstart"), services.clock.now(), origin)
    if not await bootstrap.is_untouched(services):
        await services.runtime.instance.finish_kickstart(claim.owner, "done")
        return {}
    kickstart = await _evaluated(services, claim, source, base_url)
    keep(kickstart.announce)
    try:
        await _perform(services, call, kickstart, claim, local_url)
    except _LostClaimError:
        raise
    except StartupError:
        keep({})
        await services.runtime.instance.finish_kickstart(claim.owner, "failed")
        raise
    await _announce_success(services, call, claim)
    return kickstart.announce


async def _evaluated(services: Services, claim: Claim, source: Source, base_url: str) -> Kickstart:
    """Evaluate the expressions. An invalid file has changed nothing: the claim is released, so it can be corrected."""
    try:
        return source.evaluated(await bootstrap.predefined_variables(services, base_url))
    except StartupError:
        await services.runtime.instance.release_kickstart(claim.owner)
        raise


async def _perform(services: Services, call: Call, kickstart: Kickstart, claim: Claim, local_url: str) -> None:
    for key in kickstart.api_keys:
        if key.get("tenantId") is None:
            await _add_key(services, call, key)
    client = HttpClient(allowed_networks=_LOOPBACK)
    try:
        for request in kickstart.requests:
            await claim.require()
            await _send(client, kickstart, request, local_url, call.origin.base_url)
    finally:
        await client.close()
    for key in kickstart.api_keys:
        if key.get("tenantId") is not None:
            await _add_key(services, call, key)


async def _add_key(services: Services, call: Call, given: Document) -> None:
    members = {name: value for name, value in given.items() if name not in {"id", "description", "keyManager"}}
    if given.get("description"):
        members["metaData"] = {"attributes": {"description": given["description"]}}
    try:
        shape = services.schemas[api_keys.RESOURCE.schema]
        await api_keys.add(
            services,
            call,
            shape.read({"apiKey": members})["apiKey"],
            given.get("id"),
            caller=None,
            manager=coerce(_BOOLEAN, given.get("keyManager")) is True,
        )
    except Invalid as error:
        name = given.get("name") or given.get("description") or "without a name"
        raise StartupError(f"kickstart: the API key [{name}] was refused: {error}.") from error


async def _send(client: HttpClient, kickstart: Kickstart, request: Request, local_url: str, base_url: str) -> None:
    headers = {"Authorization": kickstart.api_keys[0]["key"], "Content-Type": request.content_type}
    # Without a configured base URL, URLs of new objects (the issuer of a tenant) are made of the Host header.
    headers["Host"] = urllib.parse.urlsplit(base_url).netloc
    if request.tenant_id is not None:
        headers["X-FusionAuth-TenantId"] = request.tenant_id
    prefix = f"kickstart: request {request.number} ({request.method} {request.url})"
    try:
        response = await client.request(
            OutboundRequest(
                method=request.method,
                url=local_url + request.url,
                headers=headers,
                body=b"" if request.body is None else orjson.dumps(request.body),
                connect_timeout_ms=kickstart.connect_timeout,
                read_timeout_ms=kickstart.read_timeout,
            )
        )
    except OutboundError as error:
        raise StartupError(f"{prefix} failed: {error}") from error
    if not 200 <= response.status < 300:
        raise StartupError(
            f"{prefix} was answered with {response.status}: {response.body.decode('utf-8', 'replace')[:4000]}"
        )
    if ignored := response.headers.get(request_members.HEADER.lower()):
        _log.warning("kickstart: ignored members", request=f"{request.method} {request.url}", members=ignored)


async def _announce_success(services: Services, call: Call, claim: Claim) -> None:
    event = Event("kickstart.success", {"instanceId": services.runtime.instance_id})
    finish = functools.partial(services.runtime.instance.finish_kickstart, claim.owner, "done")
    await services.bus.commit(call, Change([finish], after_commit=[event]))
