"""The command doctor: diagnose a running instance through its API."""

from __future__ import annotations

import contextlib
import dataclasses
import email.utils
import ipaddress
import json
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Final, Literal

import click

from identity import __version__
from identity.cli import exit_codes
from identity.cli.api import Api, ApiError, Json
from identity.cli.connection import with_api
from identity.cli.output import Output, instant
from identity.domain.configuration import administrator_roles
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.configuration.tenants import duplicate_issuers

_DAY_MILLISECONDS: Final = 86_400_000
_EXPIRY_DAYS: Final = 30
_SKEW_SECONDS: Final = 5
_SLOW_MILLISECONDS: Final = 500
_MOST_TENANTS: Final = 25
_MOST_WEBHOOKS: Final = 100
_MOST_USERS: Final = 500

Level = Literal["ok", "warning", "fault"]


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with a remedy unless it is ok."""

    level: Level
    check: str
    text: str
    remedy: str = ""


@click.command("doctor")
@with_api
def command(api: Api, output: Output) -> int:
    """Diagnose a running instance: stores, keys, issuers, clock, webhooks, and recent errors, each with a remedy."""
    findings = [finding for check in _CHECKS for finding in _performed(check, api)]
    output.rows(("level", "check", "text", "remedy"), [dataclasses.asdict(finding) for finding in findings])
    return exit_codes.FAILURE if any(finding.level == "fault" for finding in findings) else exit_codes.OK


def _performed(check: Callable[[Api], Iterator[Finding]], api: Api) -> list[Finding]:
    name = check.__name__.strip("_").replace("_", " ")
    try:
        return list(check(api))
    except ApiError as error:
        remedy = "Use an API key without a tenant that may read this endpoint." if error.exit_code == 5 else ""
        return [Finding("fault", name, error.message.splitlines()[0], remedy)]


def _health(api: Api) -> Iterator[Finding]:
    started = time.monotonic()
    status, headers, body = api.exchange("GET", "/api/health")
    milliseconds = round((time.monotonic() - started) * 1000)
    if status != 200:
        text = f"/api/health responds with {status}: {_health_reason(body)}"
        yield Finding("fault", "health", text, "Check mongodb.uri and redis.url with identity check-config.")
    elif milliseconds > _SLOW_MILLISECONDS:
        yield Finding(
            "warning", "health", f"answered in {milliseconds} ms", "Check the load of the machines and stores."
        )
    else:
        yield Finding("ok", "health", f"answered in {milliseconds} ms")
    yield from _clock(headers.get("Date"))


def _health_reason(body: str) -> str:
    """Return why the service is not healthy; without a body that is an outage, and a proxy may send another one."""
    with contextlib.suppress(LookupError, TypeError, ValueError):
        return str(json.loads(body)["generalErrors"][0]["message"])
    return "MongoDB or Redis does not answer"


def _clock(date: str | None) -> Iterator[Finding]:
    if date is None:
        return
    skew = round(time.time() - email.utils.parsedate_to_datetime(date).timestamp())
    if abs(skew) > _SKEW_SECONDS:
        remedy = "Synchronize both clocks (NTP): tokens are refused while clocks differ."
        yield Finding("warning", "clock", f"the clock of the service differs from this one by {skew} s", remedy)
    else:
        yield Finding("ok", "clock", "the clocks agree")


def _origin(url: str) -> str:
    """Return the scheme and host of a URL, without the port that the scheme implies."""
    parts = urllib.parse.urlsplit(url.lower())
    is_default = parts.port == {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{parts.hostname}{'' if parts.port is None or is_default else f':{parts.port}'}"


def _host(api: Api) -> Iterator[Finding]:
    """Compare the address of the request with the public address that the service puts into URLs."""
    if api.is_local:
        return
    found = api.get("/.well-known/openid-configuration")["authorization_endpoint"]
    if _origin(found) == _origin(api.url):
        yield Finding("ok", "base url", _origin(found))
    elif _is_loopback(urllib.parse.urlsplit(api.url).hostname or ""):
        yield Finding("ok", "base url", f"{_origin(found)}, examined at {api.url}")
    else:
        text = f"the service calls itself {_origin(found)}, and answers at {api.url}"
        remedy = "Set server.base_url to the address that browsers use, and let the proxy pass on Host."
        yield Finding("warning", "base url", text, remedy)


def _transport(api: Api) -> Iterator[Finding]:
    url = urllib.parse.urlsplit(api.url)
    if url.scheme == "https" or _is_loopback(url.hostname or ""):
        yield Finding("ok", "transport", api.url)
    else:
        yield Finding(
            "warning", "transport", f"{api.url} is not https", "Terminate TLS in front of the service (nginx)."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _version(api: Api) -> Iterator[Finding]:
    served = api.get("/api/openapi.json")["info"]["version"]
    if served == __version__:
        yield Finding("ok", "version", served)
    else:
        remedy = "Use the program of the same version; docs/upgrading.md lists what changed."
        yield Finding("warning", "version", f"the service is {served}, this program {__version__}", remedy)


def _stores(api: Api) -> Iterator[Finding]:
    status, _, text = api.exchange("GET", "/api/status")
    body = json.loads(text) if text else {}
    if not body and status == 200:
        yield Finding("fault", "stores", "the API key may not read /api/status", "Use a key without a tenant.")
    for store in ("mongodb", "redis"):
        if body.get(store) == "ok":
            yield Finding("ok", store, "answers")
        elif body.get(store) == "down":
            yield Finding("fault", store, "does not answer", f"Check {store}.{'uri' if store == 'mongodb' else 'url'}.")
        elif store in body:
            yield Finding("fault", store, f"refuses writes: {body[store]}", f"Check the log and the limits of {store}.")
    yield from _state(api, body)


def _state(api: Api, body: Json) -> Iterator[Finding]:
    """Examine what the status says of the process that answers: its master key file, and whether it is quiesced."""
    if "masterKey" in body:
        remedy = "Do so before this process is restarted: it cannot start without the key."
        yield Finding("fault", "master key", body["masterKey"], remedy)
    elif body.get("mongodb") == "ok":
        yield Finding("ok", "master key", "the file belongs to the database")
    if body.get("quiesced"):
        text = f"{api.url} is quiesced: it sends no webhook, mail or message"
        remedy = "Run identity release, or restart it without --quiesced."
        yield Finding("warning", "quiesced", text, remedy)


def _issuers(api: Api) -> Iterator[Finding]:
    tenants = api.get("/api/tenant")["tenants"]
    for shared in duplicate_issuers(tenants):
        names = ", ".join(tenant["name"] for tenant in shared["tenants"])
        remedy = "Give each its own issuer if their relying parties have to distinguish them."
        yield Finding("warning", "issuers", f"{shared['issuer']} is the issuer of {names}", remedy)
    for tenant in tenants[:_MOST_TENANTS]:
        yield _issuer(api, tenant)
    if len(tenants) > _MOST_TENANTS:
        yield Finding("ok", "issuers", f"discovery of {len(tenants) - _MOST_TENANTS} older tenants was not examined")


def _issuer(api: Api, tenant: Json) -> Finding:
    path = f"/{tenant['id']}/.well-known/openid-configuration"
    found, issuer = api.get(path), tenant["issuer"]
    if found["issuer"] != issuer:
        remedy = "Restart the process that serves this URL; its cache is out of date."
        return Finding(
            "fault", "issuers", f"discovery of {tenant['name']} names {found['issuer']}, not {issuer}", remedy
        )
    if not api.get(f"/{tenant['id']}/.well-known/jwks.json").get("keys"):
        return Finding("fault", "keys", f"{tenant['name']} publishes no key", "Run identity admin rotate-key.")
    base_url = _origin(found["authorization_endpoint"])
    if _origin(issuer) != base_url:
        text = f"the issuer of {tenant['name']} is {issuer}, and the service answers at {base_url}"
        remedy = "Clients look for discovery below the issuer: set server.base_url or the issuer, as after a restore."
        return Finding("warning", "issuers", text, remedy)
    if not issuer.startswith("https://") and not _is_loopback(urllib.parse.urlsplit(issuer).hostname or ""):
        remedy = "Set the issuer to an https URL; clients compare it literally."
        return Finding("warning", "issuers", f"the issuer of {tenant['name']} is {issuer}", remedy)
    return Finding("ok", "issuers", f"{tenant['name']}: {issuer}")


def _keys(api: Api) -> Iterator[Finding]:
    limit = time.time() * 1000 + _EXPIRY_DAYS * _DAY_MILLISECONDS
    expiring = [key for key in api.get("/api/key")["keys"] if key.get("expirationInstant", limit) < limit]
    for key in expiring:
        text = f"{key['name']} expires at {instant(key['expirationInstant'])}"
        yield Finding("warning", "keys", text, "Run identity admin rotate-key for the tenants that sign with it.")
    if not expiring:
        yield Finding("ok", "keys", f"no certificate expires within {_EXPIRY_DAYS} days")


def _webhooks(api: Api) -> Iterator[Finding]:
    webhooks = api.get("/api/webhook")["webhooks"]
    for webhook in webhooks:
        if webhook.get("status"):
            reason = webhook.get("disabledReason", "by an administrator")
            text = f"{webhook['url']} is {webhook['status']}: {reason}"
            yield Finding("warning", "webhooks", text, "Repair the receiver, then set its status to Active.")
    for webhook in webhooks[:_MOST_WEBHOOKS]:
        letters = api.get(f"/api/webhook/{webhook['id']}/dead-letter", numberOfResults=1)["total"]
        if letters:
            remedy = f"Run identity admin webhook replay --webhook {webhook['id']} --since 1d."
            yield Finding("warning", "webhooks", f"{letters} events could not be delivered to {webhook['url']}", remedy)
    yield Finding("ok", "webhooks", f"{len(webhooks)} webhooks")


def _administrators(api: Api) -> Iterator[Finding]:
    query = f"registrations.applicationId:{ADMINISTRATOR_APPLICATION_ID}"
    found = api.send("POST", "/api/user/search", {"search": {"queryString": query, "numberOfResults": _MOST_USERS}})
    unnamed = [user["id"] for user in found["users"] if administrator_roles.lacks_tenant(user)]
    for user_id in unnamed:
        text = f"the user {user_id} has the role tenant-admin, but no data.tenantId in the registration"
        remedy = "Set data.tenantId of the registration to the tenant; without it the role permits nothing."
        yield Finding("warning", "administrators", text, remedy)
    if not unnamed:
        yield Finding("ok", "administrators", f"{found['total']} registrations")


def _recent_errors(api: Api) -> Iterator[Finding]:
    since = round(time.time() * 1000) - _DAY_MILLISECONDS
    criteria = {"type": "Error", "start": since, "numberOfResults": 1}
    found = api.send("POST", "/api/system/event-log/search", {"search": criteria})
    if found["total"]:
        newest = found["eventLogs"][0]["message"].splitlines()[0][:120]
        text = f"{found['total']} errors in the event log within a day, the newest: {newest}"
        yield Finding("warning", "recent errors", text, "Read them with identity admin tail events.")
    else:
        yield Finding("ok", "recent errors", "no error in the event log within a day")


_CHECKS: Final = (
    _health,
    _transport,
    _host,
    _version,
    _stores,
    _issuers,
    _keys,
    _webhooks,
    _administrators,
    _recent_errors,
)
