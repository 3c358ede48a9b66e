"""Requests to connectors: the credentials of a login are sent, the user is returned."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import orjson

from identity.call import Call, Document
from identity.domain.connectors import connector_users
from identity.domain.connectors import connectors as connector_rules
from identity.domain.objects import event_info
from identity.domain.webhooks import webhook_headers
from identity.errors import ServiceError
from identity.ids import Secret
from identity.operations.lambdas import lambdas
from identity.operations.messaging.webhook_keys import WebhookKeys
from identity.outbound.directories import Directory, LdapError
from identity.outbound.http import OutboundError, Request
from identity.outbound.tls import is_trust_anchor
from identity.services import Services

_MAX_RESPONSE_BYTES: Final = 262_144


class ConnectorError(Exception):
    """A connector could not be asked, or its answer is not usable. The message contains no secrets."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoginRequest:
    """The credentials that a connector receives."""

    login_id: str
    password: str = dataclasses.field(repr=False)
    application_id: str | None = None
    is_new_device: bool = False


async def find_user(services: Services, call: Call, connector: Document, login: LoginRequest) -> Document | None:
    """Return the user of the credentials as the connector described it; None if it does not accept them.

    Raises ConnectorError.
    """
    try:
        async with services.outbound.connector_clients.held(connector["id"]):
            if connector["type"] == connector_rules.LDAP:
                return await _find_entry(services, call, connector, login)
            return await _post(services, call, connector, login)
    except OutboundError as error:
        raise ConnectorError(f"{error.kind}: {error.message}") from error


async def _post(services: Services, call: Call, connector: Document, login: LoginRequest) -> Document | None:
    try:
        response = await services.outbound.connector_clients.http.request(
            await _request(services, call, connector, login)
        )
    except (ServiceError, LookupError, ValueError) as error:
        raise ConnectorError(f"its certificate cannot be used ({type(error).__name__})") from error
    if response.status == 404:
        return None
    if response.status != 200:
        raise ConnectorError(f"status {response.status}")
    if response.truncated:
        raise ConnectorError(f"the response is longer than {_MAX_RESPONSE_BYTES} bytes")
    return _user_of(response.body)


def _user_of(body: bytes) -> Document:
    try:
        user = orjson.loads(body)["user"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ConnectorError("the response is not a JSON object with a user") from error
    if not isinstance(user, dict):
        raise ConnectorError("the user in the response is not an object")
    return user


async def _request(services: Services, call: Call, connector: Document, login: LoginRequest) -> Request:
    key_id = connector.get("sslCertificateKeyId")
    certificate = None if key_id is None else await WebhookKeys.certificate_of(services.configuration.keys, key_id)
    username = connector.get("httpAuthenticationUsername")
    body: dict[str, Any] = {
        "eventInfo": event_info.build(call),
        "loginId": login.login_id,
        "newDevice": login.is_new_device,
        "noJWT": False,
        "password": login.password,
    }
    if login.application_id is not None:
        body["applicationId"] = login.application_id
    return Request(
        method="POST",
        url=connector["authenticationURL"],
        headers={
            "Accept": "application/json",
            **webhook_headers.sendable(connector["headers"]),
            "Content-Type": "application/json",
        },
        body=orjson.dumps(body),
        connect_timeout_ms=connector["connectTimeout"],
        read_timeout_ms=connector["readTimeout"],
        basic=(username, Secret(connector.get("httpAuthenticationPassword") or "")) if username else None,
        client_certificate=certificate,
        added_trust_pem=certificate[0] if certificate is not None and is_trust_anchor(certificate[0]) else None,
        max_response_bytes=_MAX_RESPONSE_BYTES,
    )


async def _find_entry(services: Services, call: Call, connector: Document, login: LoginRequest) -> Document | None:
    try:
        attributes = await services.outbound.connector_clients.ldap.authenticate(
            _directory(connector), login.login_id, login.password
        )
    except LdapError as error:
        raise ConnectorError(str(error)) from error
    if attributes is None:
        return None
    lambda_id = connector["lambdaConfiguration"]["reconcileId"]
    try:
        user, _ = await lambdas.invoke(
            services, call, lambda_id, connector_rules.LAMBDA_TYPE, connector_users.fresh_user(), attributes
        )
    except ServiceError as error:
        raise ConnectorError("its lambda failed") from error
    return dict(user)


def _directory(connector: Document) -> Directory:
    return Directory(
        url=connector["authenticationURL"],
        security=connector["securityMethod"],
        system_account_dn=connector["systemAccountDN"],
        system_account_password=Secret(connector["systemAccountPassword"]),
        base=connector["baseStructure"],
        login_id_attribute=connector["loginIdAttribute"],
        identifying_attribute=connector["identifyingAttribute"],
        attributes=tuple(connector["requestedAttributes"]),
        connect_timeout_ms=connector["connectTimeout"],
        read_timeout_ms=connector["readTimeout"],
    )
