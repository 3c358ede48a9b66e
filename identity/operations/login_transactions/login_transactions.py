"""Login transactions: a login and its authorization request, stored while one page comes before the response.

A transaction is bound to its tenant, client and page, and to the browser, whose cookie holds its secret. A browser may
have several at once, one per tab: the cookie lists their secrets, newest first, and a page names its transaction by
`transaction_id`. Each step consumes the transaction and stores the next one under a new secret, so that no step can be
skipped, repeated or taken out of order.

    InterruptedTransaction    the credentials were correct; the login still has to meet a requirement on `page`
    AuthenticatedTransaction  the login is complete; the response waits for consent, a device or registration data
    RegistrationTransaction   the user has filled in some steps of a registration form; the only kind that may go back

Redis and the settings call a transaction a login intent.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.domain.objects import stored_values
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.objects.stored_values import stored_as
from identity.errors import InvalidRequest
from identity.ids import UserId, fingerprint
from identity.instants import Instant
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.authorization_steps import (
    CurrentLogin,
    IntermediatePage,
    SsoCookie,
    VerifiedClient,
)
from identity.services import Services
from identity.store.browser_sessions import SsoSession
from identity.store.mongo import Session

COOKIE: Final = "fusionauth.li"

TWO_FACTOR: Final = "two-factor"
TWO_FACTOR_ENABLE: Final = "two-factor-enable"
TWO_FACTOR_ENABLED: Final = "two-factor-enable-complete"
CHANGE_PASSWORD: Final = "/password/change"  # noqa: S105 (a path)
VERIFY_EMAIL: Final = "/email/verification-required"
VERIFY_REGISTRATION: Final = "/registration/verification-required"
REGISTRATION_STEPS: Final = "register/steps"

_MAXIMUM_PER_BROWSER: Final = 4
_SEPARATOR: Final = "."
_FORMS: Final = ("oauth2/authorize.form.json", "oauth2/register.form.json")
_REQUEST: Final = "oauth2/authorize.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class InterruptedLogin:
    """A login with correct credentials that still has to meet a requirement, and the evidence collected so far.

    `session_id` names the SSO session that met the requirement, where the user did not authenticate just now.
    `pending_link_id` names an account at a provider to link when the login is complete. `details` holds what the page
    needs, such as the two-factor challenge. `authenticated_instant` is when the credentials were verified; a password
    that changes later invalidates the login. `provider_instant` is when an identity provider authenticated the user, if
    it states that, and `provider_session` what a logout there needs.
    """

    user_id: str
    authentication_type: str
    identity_type: str | None = None
    is_persistent: bool = False
    second_factor: str = ""
    reason_to_change: str | None = None
    session_id: str = ""
    pending_link_id: str = stored_as("link", default="", repr=False)
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    authenticated_instant: int | None = stored_as("since", default=None)
    provider_instant: Instant | None = None
    provider_session: Document | None = dataclasses.field(default=None, repr=False)

    def with_details(self, **details: Any) -> InterruptedLogin:
        """Return the login with exactly these details."""
        return dataclasses.replace(self, details=details)


@dataclasses.dataclass(frozen=True, slots=True)
class AuthenticatedLogin:
    """A complete login whose response waits for a page.

    `has_sso_session`: the session is also stored as an SSO session, which has to exist for as long as the login waits.
    """

    session: SsoSession
    has_sso_session: bool
    authentication_type: str
    has_second_factor: bool


@dataclasses.dataclass(frozen=True, slots=True)
class RegistrationDraft:
    """The valid answers to the first `steps_done` steps of a registration form, by the keys of their fields.

    `verified` has the login ids that steps verified, by the keys of their fields: the value and the verification id.
    """

    answers: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    steps_done: int = 0
    is_persistent: bool = False
    verified: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class LoginTransaction:
    """The parts of a stored transaction that a page and its form need.

    The browser's `cookie` holds the secret of the transaction that `transaction_id` names.
    """

    verified_client: VerifiedClient
    page: str
    cookie: str = dataclasses.field(repr=False)
    transaction_id: str

    @property
    def client(self) -> Client:
        """The client of the authorization request."""
        return self.verified_client.client


@dataclasses.dataclass(frozen=True, slots=True)
class InterruptedTransaction(LoginTransaction):
    """The transaction of a login that has to meet the requirement of `page`."""

    login: InterruptedLogin


@dataclasses.dataclass(frozen=True, slots=True)
class AuthenticatedTransaction(LoginTransaction):
    """The transaction of a complete login whose response waits for `page`."""

    login: AuthenticatedLogin


@dataclasses.dataclass(frozen=True, slots=True)
class RegistrationTransaction(LoginTransaction):
    """The transaction of a user who fills in a registration form."""

    draft: RegistrationDraft


class TransactionEndedError(InvalidRequest):
    """The transaction expired or was continued elsewhere.

    The error page shows it: the application may have its response already, so nothing is redirected there.
    """


class TransactionClaim:
    """Consumes a transaction once; `consume` is a write that may run again in the same request."""

    def __init__(self, services: Services, transaction: LoginTransaction) -> None:
        self._services, self._transaction = services, transaction
        self._is_consumed = False

    async def consume(self, _session: Session | None = None) -> None:
        """Consume the transaction. Raises TransactionEndedError for every request but the first."""
        if not self._is_consumed:
            await consume(self._services, self._transaction)
            self._is_consumed = True


async def store_interrupted(
    services: Services,
    verified_client: VerifiedClient,
    login: InterruptedLogin,
    page: str,
    cookie: SsoCookie | None = None,
    suffix: str = "",
) -> IntermediatePage:
    """Store a login that has to meet the requirement of `page`; `suffix` follows the page in its path."""
    if login.authenticated_instant is None:
        login = dataclasses.replace(login, authenticated_instant=services.clock.now())
    secret = await _store(services, verified_client, page, _interrupted_document(login))
    return IntermediatePage(verified_client.client, page + suffix, secret, cookie)


async def store_authenticated(
    services: Services, verified_client: VerifiedClient, current: CurrentLogin, page: str
) -> IntermediatePage:
    """Store a complete login whose response waits for `page`."""
    session = current.session
    document: Document = {
        "userId": session.user_id,
        "sessionId": session.session_id,
        "authInstant": session.auth_instant,
        "startInstant": session.start_instant,
        "sessionType": session.authentication_type,
        "secondFactor": session.second_factor,
        "realm": session.realm,
        "isPersistent": session.is_persistent,
        "isKept": bool(current.secret),
        "authenticationType": current.authentication_type,
        "hasSecondFactor": current.has_second_factor,
    }
    secret = await _store(services, verified_client, page, document)
    return IntermediatePage(verified_client.client, page, secret, SsoCookie.of(verified_client.client, current))


async def store_registration(
    services: Services, verified_client: VerifiedClient, draft: RegistrationDraft
) -> IntermediatePage:
    """Store the answers to the first steps of a registration form."""
    secret = await _store(services, verified_client, REGISTRATION_STEPS, stored_values.to_document(draft))
    return IntermediatePage(verified_client.client, REGISTRATION_STEPS, secret)


async def find_registration(
    services: Services, client: Client, cookie: str, transaction_id: str
) -> tuple[Document, RegistrationDraft] | None:
    """Find the request and the answers of a browser's registration."""
    stored = await _find(services, client, REGISTRATION_STEPS, cookie, transaction_id)
    if stored is None:
        return None
    return stored["given"], stored_values.from_document(RegistrationDraft, stored)


async def update_registration(
    services: Services, transaction: RegistrationTransaction, draft: RegistrationDraft
) -> None:
    """Store the answers to another step. Raises TransactionEndedError if the transaction was consumed meanwhile."""
    document = _with_request(services, transaction.verified_client, transaction.page, stored_values.to_document(draft))
    secret = _secret(transaction.cookie, transaction.transaction_id)
    tenant_id = transaction.client.tenant_id
    if secret is None or not await services.sessions.login_intents.replace(tenant_id, secret, document):
        raise ended()


async def find_interrupted(
    services: Services, client: Client, page: str, cookie: str, transaction_id: str
) -> tuple[Document, InterruptedLogin] | None:
    """Find the request and the interrupted login of a browser's transaction for this client and page."""
    stored = await _find(services, client, page, cookie, transaction_id)
    if stored is None or not stored.get("isHalted"):
        return None
    return stored["given"], stored_values.from_document(InterruptedLogin, stored)


async def find_authenticated(
    services: Services, client: Client, page: str, cookie: str, transaction_id: str
) -> tuple[Document, AuthenticatedLogin] | None:
    """Find the request and the complete login of a browser's transaction for this client and page."""
    stored = await _find(services, client, page, cookie, transaction_id)
    if stored is None:
        return None
    session = SsoSession(
        stored["sessionId"],
        UserId(stored["userId"]),
        Instant(stored["authInstant"]),
        stored["sessionType"],
        stored["isPersistent"],
        frozenset({client.client_id}),
        stored["secondFactor"],
        stored.get("realm", ""),
        stored.get("startInstant"),
    )
    login = AuthenticatedLogin(session, stored["isKept"], stored["authenticationType"], stored["hasSecondFactor"])
    return stored["given"], login


async def consume(services: Services, transaction: LoginTransaction) -> None:
    """Consume a transaction: one of several concurrent requests succeeds. Raises TransactionEndedError."""
    client, secret = transaction.client, _secret(transaction.cookie, transaction.transaction_id)
    stored = None if secret is None else await services.sessions.login_intents.consume(client.tenant_id, secret)
    if stored is None or stored["clientId"] != client.client_id:
        raise ended()


async def update_details(services: Services, transaction: InterruptedTransaction, **details: Any) -> bool:
    """Add details for the page of a transaction; False when the transaction was consumed meanwhile."""
    login = dataclasses.replace(transaction.login, details={**transaction.login.details, **details})
    document = _with_request(services, transaction.verified_client, transaction.page, _interrupted_document(login))
    secret = _secret(transaction.cookie, transaction.transaction_id)
    return secret is not None and await services.sessions.login_intents.replace(
        transaction.client.tenant_id, secret, document
    )


def at_next_page(
    transaction: InterruptedTransaction, login: InterruptedLogin, page: IntermediatePage
) -> InterruptedTransaction:
    """Return the transaction that was stored for the next page, with the cookie that the browser is about to get."""
    secret = page.transaction_secret
    cookie = cookie_with(transaction.cookie, secret)
    return InterruptedTransaction(transaction.verified_client, page.page, cookie, transaction_id_of(secret), login)


def ended() -> TransactionEndedError:
    """Return the error for a transaction that expired or was consumed."""
    message = "This page was open for too long, or was answered already. Go back to the application and start again."
    return TransactionEndedError("unknown", message)


def transaction_id_of(secret: str) -> str:
    """Return the public id of a transaction, which is useless without the browser's cookie."""
    return fingerprint(f"login-intent {secret}")[:32]


def cookie_with(cookie: str, secret: str) -> str:
    """Return the cookie value with one more transaction; the oldest beyond the maximum are dropped."""
    secrets = [secret, *filter(None, cookie.split(_SEPARATOR))]
    return _SEPARATOR.join(secrets[:_MAXIMUM_PER_BROWSER])


def cookie_without(cookie: str, transaction_id: str) -> str:
    """Return the cookie value without a consumed transaction."""
    secrets = [secret for secret in cookie.split(_SEPARATOR) if secret and transaction_id_of(secret) != transaction_id]
    return _SEPARATOR.join(secrets)


def request_parameters(services: Services, verified_client: VerifiedClient) -> Document:
    """Return the parameters of the authorization request, without those that only forms have, such as passwords."""
    request = services.schemas[_REQUEST].schema["properties"]
    forms = [services.schemas[name].schema for name in _FORMS]
    return {
        name: value
        for name, value in verified_client.given.items()
        if name in request or not any(_has_parameter(form, name) for form in forms)
    }


def _has_parameter(schema: Mapping[str, Any], name: str) -> bool:
    patterns = schema.get("patternProperties", ())
    return name in schema["properties"] or any(re.fullmatch(pattern, name) for pattern in patterns)


async def _store(services: Services, verified_client: VerifiedClient, page: str, login: Document) -> str:
    client = verified_client.client
    ttl_seconds = Lifetimes.of(client.tenant).login_intent_seconds
    document = _with_request(services, verified_client, page, login)
    return await services.sessions.login_intents.issue(client.tenant_id, document, ttl_seconds)


async def _find(services: Services, client: Client, page: str, cookie: str, transaction_id: str) -> Document | None:
    secret = _secret(cookie, transaction_id)
    stored = None if secret is None else await services.sessions.login_intents.find(client.tenant_id, secret)
    return stored if stored is not None and (stored["page"], stored["clientId"]) == (page, client.client_id) else None


def _secret(cookie: str, transaction_id: str) -> str | None:
    secrets = cookie.split(_SEPARATOR)
    return next((secret for secret in secrets if secret and transaction_id_of(secret) == transaction_id), None)


def _with_request(services: Services, verified_client: VerifiedClient, page: str, login: Document) -> Document:
    request = request_parameters(services, verified_client)
    return {**login, "clientId": verified_client.client.client_id, "page": page, "given": request}


def _interrupted_document(login: InterruptedLogin) -> Document:
    return {**stored_values.to_document(login), "isHalted": True}
