"""The Tornado application: every route, the limits of the HTTP server, and the metrics of requests."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence

import prometheus_client
import structlog
import tornado.web
from tornado.httputil import HTTPHeaders

from identity import resources
from identity.logs import ACCESS
from identity.operations.connectors import connectors
from identity.operations.scim import clients as scim_clients
from identity.services import Services
from identity.web import crud
from identity.web.api import (
    api_keys,
    applications,
    email,
    entities,
    families,
    groups,
    identity_providers,
    jwt,
    keys,
    lambdas,
    login,
    logs,
    passwords,
    reports,
    scim,
    system,
    tenants,
    two_factor,
    user_actions,
    user_consents,
    user_import,
    users,
    verifications,
    webauthn,
    webhooks,
)
from identity.web.api_reference import handlers as api_reference
from identity.web.base_handlers import BaseHandler, Route
from identity.web.client_address import ClientAddresses
from identity.web.console import actions as console_actions
from identity.web.console import connect as console_connect
from identity.web.console import handlers as console_handlers
from identity.web.console import home as console_home
from identity.web.console import key_check as console_key_check
from identity.web.console import previews as console_previews
from identity.web.console import refusals as console_refusals
from identity.web.console import registrations as console_registrations
from identity.web.console import resources as console_resources
from identity.web.console import sign_in as console_sign_in
from identity.web.console import try_it as console_try_it
from identity.web.console import user_transfer
from identity.web.console import webhook_pages as console_webhook_pages
from identity.web.hosted import consent, landing_page, passkeys, passwordless, register, verification_gates
from identity.web.hosted import two_factor as two_factor_pages
from identity.web.http_server import LargeBodyLimit
from identity.web.in_flight import InFlight
from identity.web.oauth2 import (
    authorize,
    callback,
    device,
    discovery,
    hosted_backend,
    logout,
    register_client,
    token,
    userinfo,
)
from identity.web.openapi import document
from identity.web.routing import RoutedApplication
from identity.web.self_service import account, account_access, account_authenticators, account_edit, mail_links
from identity.web.self_service import passwords as password_pages

_log = structlog.get_logger(ACCESS)
_is_enabled_for = logging.getLogger(ACCESS).isEnabledFor
_PROBES = frozenset({"/api/health", "/api/health/live", "/api/prometheus/metrics", "/api/status"})
"""Routes that monitoring requests every few seconds; those that succeed are logged at debug level."""


_MODULES = (
    register_client,
    token,
    userinfo,
    authorize,
    discovery,
    logout,
    device,
    hosted_backend,
    callback,
    identity_providers,
    api_keys,
    applications,
    email,
    entities,
    groups,
    jwt,
    keys,
    lambdas,
    login,
    reports,
    tenants,
    two_factor,
    logs,
    user_actions,
    verifications,
    passwords,
    families,
    user_consents,
    user_import,
    users,
    webauthn,
    scim,
    consent,
    register,
    passwordless,
    passkeys,
    two_factor_pages,
    verification_gates,
    mail_links,
    password_pages,
    account,
    account_access,
    account_edit,
    account_authenticators,
    landing_page,
    console_sign_in,
    console_home,
    user_transfer,
    console_previews,
    console_resources,
    console_actions,
    console_registrations,
    console_connect,
    console_key_check,
    console_try_it,
    console_refusals,
    console_webhook_pages,
)


async def _is_administrator(services: Services, headers: HTTPHeaders) -> bool:
    return await console_handlers.administrator_of(services, headers) is not None


async def _is_scim_client(services: Services, headers: HTTPHeaders) -> bool:
    return await scim_clients.has_valid_token(services, headers.get("Authorization", ""), services.clock.now())


def body_limits(services: Services) -> LargeBodyLimit:
    """Return the limits of request bodies by the authority of the caller."""
    callers = {"/admin": _is_administrator, "/api/scim": _is_scim_client}
    return LargeBodyLimit(services, user_transfer.UPLOADS, callers)


def routes(registry: prometheus_client.CollectorRegistry) -> list[Route]:
    """Return every route of the service, in the order in which they are matched."""
    found = [
        *webhooks.ROUTES,  # the pattern of their resource matches their paths as well
        *crud.routes(*resources.RESOURCES, connectors.RESOURCE),
        *system.routes(registry),
        *(route for module in _MODULES for route in module.ROUTES),
    ]
    found += document.routes(lambda: found)
    found += api_reference.routes(lambda: found)
    return found


def application(
    services: Services, registry: prometheus_client.CollectorRegistry, in_flight: InFlight
) -> tornado.web.Application:
    """Return the Tornado application over the services."""
    log = _RequestLog(registry)
    return _application(services, in_flight, routes(registry), landing_page.UnknownPathHandler, log)


def monitoring_application(
    services: Services,
    registry: prometheus_client.CollectorRegistry,
    in_flight: InFlight,
    application: tornado.web.Application,
) -> tornado.web.Application:
    """Return the application of a worker, which has the metrics and the health only, and the log of the other one."""
    log = application.settings["log_function"]
    return _application(services, in_flight, system.monitoring_routes(registry), system.NoRouteHandler, log)


def _application(
    services: Services,
    in_flight: InFlight,
    served: Sequence[Route],
    unknown_path_handler: type[BaseHandler],
    log: _RequestLog,
) -> tornado.web.Application:
    settings = services.config.server
    addresses = ClientAddresses(settings.trusted_proxies, settings.base_url)
    common = {"services": services, "addresses": addresses, "in_flight": in_flight}
    return RoutedApplication(
        served,
        common,
        default_handler_class=unknown_path_handler,
        default_handler_args={**common, "template": "none"},
        log_function=log,
    )


@contextlib.contextmanager
def access_log_suspended(application: tornado.web.Application) -> Iterator[None]:
    """Log successful requests at debug level: those of the kickstart would hide what the first start prints."""
    log: _RequestLog = application.settings["log_function"]
    log.is_suspended = True
    try:
        yield
    finally:
        log.is_suspended = False


_CLIENT_FAULTS = frozenset({501, 508})
"""Server errors that clients cause by what they send."""


class _RequestLog:
    """Counts and times requests by route, and writes the access log: an entry for each request, without its query."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        labels = ("route", "method", "status")
        self._count = prometheus_client.Counter("http_requests", "Requests answered", labels, registry=registry)
        self._seconds = prometheus_client.Histogram(
            "http_request_seconds", "Time to answer", ("route", "method"), registry=registry
        )
        # Looking up a metric by its labels costs more than counting.
        self._known: dict[tuple[str, str, int], tuple[prometheus_client.Counter, prometheus_client.Histogram]] = {}
        self.is_suspended = False

    def __call__(self, handler: tornado.web.RequestHandler) -> None:
        template = handler.template if isinstance(handler, BaseHandler) else "none"
        request, status = handler.request, handler.get_status()
        method = request.method if request.method in tornado.web.RequestHandler.SUPPORTED_METHODS else "OTHER"
        seconds = time.time() - request._start_time  # noqa: SLF001 (Tornado's own clock of the request)
        count, times = self._metrics(template, method, status)
        count.inc()
        times.observe(seconds)
        self._write_entry(handler, template, method, round(seconds * 1000, 1))

    def _write_entry(self, handler: tornado.web.RequestHandler, template: str, method: str, ms: float) -> None:
        status = handler.get_status()
        is_quiet = (self.is_suspended or template in _PROBES) and status < 400
        level = logging.DEBUG if is_quiet else logging.INFO
        if status >= 500 and status not in _CLIENT_FAULTS:
            level = logging.ERROR
        # Making an entry costs as much as counting and timing the request.
        if _is_enabled_for(level):
            entry = handler.access_entry() if isinstance(handler, BaseHandler) else {}
            _log.log(level, "request", route=template, method=method, status=status, ms=ms, **entry)

    def _metrics(
        self, template: str, method: str, status: int
    ) -> tuple[prometheus_client.Counter, prometheus_client.Histogram]:
        key = (template, method, status)
        if key not in self._known:
            self._known[key] = self._count.labels(*key), self._seconds.labels(template, method)
        return self._known[key]
