"""Rules of tenants: normalization and validation of a tenant document, and comparison of issuers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from identity.call import Document
from identity.domain.clients import redirect_uris
from identity.domain.messaging import mail_messages
from identity.domain.two_factor import totp
from identity.domain.users.users import INTERNAL_CONNECTOR
from identity.errors import FieldError

DEFAULT_NAME = "Default"
DEFAULT_ISSUER = "acme.com"

_PATH = "tenant.jwtConfiguration"
# bcrypt reads only 72 bytes of a password; the published limit leaves room for multi-byte characters.
_BCRYPT_LENGTH = 50


def normalize(tenant: Document, transactional: frozenset[str], instance_events: frozenset[str]) -> Document:
    """Return the tenant to store: without instance events, impossible transactions and ineffective settings."""
    _normalize_events(tenant, transactional, instance_events)
    email = tenant["emailConfiguration"]
    if not email["verifyEmail"]:
        email["verifyEmailWhenChanged"] = False
    if tenant["passwordEncryptionConfiguration"]["encryptionScheme"] == "bcrypt":
        rules = tenant["passwordValidationRules"]
        rules["maxLength"] = min(rules["maxLength"], _BCRYPT_LENGTH)
    # Common authenticators do not support other settings, which are therefore ignored.
    tenant["multiFactorConfiguration"]["authenticator"] |= totp.DEFAULTS
    _normalize_connectors(tenant)
    return tenant


def _normalize_connectors(tenant: Document) -> None:
    """Keep the internal connector once, at its first position: a patch appends it a second time."""
    internal = {"connectorId": INTERNAL_CONNECTOR, "domains": ["*"], "migrate": False}
    policies: list[Document] = []
    for policy in [*tenant["connectorPolicies"], internal]:
        is_internal = policy["connectorId"] == INTERNAL_CONNECTOR
        if not (is_internal and internal in policies):
            policies.append(internal if is_internal else policy)
    tenant["connectorPolicies"] = policies


def _normalize_events(tenant: Document, transactional: frozenset[str], instance_events: frozenset[str]) -> None:
    events = tenant["eventConfiguration"]["events"]
    tenant["eventConfiguration"]["events"] = {
        name: entry if name in transactional else {**entry, "transactionType": "None"}
        for name, entry in events.items()
        if name not in instance_events
    }


def problems(tenant: Document) -> list[FieldError]:
    """Return the errors of a tenant that do not depend on other objects."""
    checks = (_captcha_problems, _url_problems, _password_problems, _email_problems, _multi_factor_problems)
    errors = [error for check in checks for error in check(tenant)]
    return token_problems(tenant["jwtConfiguration"], _PATH) + errors


def base_url_problems(document: Document, path: str) -> list[FieldError]:
    """Return the errors of the base URL of a tenant or application."""
    url = document.get("baseURL")
    if url is None or (url.startswith(("http://", "https://")) and not _is_invalid_url(url)):
        return []
    return [FieldError.invalid(f"{path}.baseURL", "must be an absolute http or https URL")]


def _is_invalid_url(url: str) -> bool:
    return redirect_uris.registration_problem(url, "ExactMatch") is not None


def _url_problems(tenant: Document) -> Iterator[FieldError]:
    yield from base_url_problems(tenant, "tenant")
    if "logoutURL" in tenant and _is_invalid_url(tenant["logoutURL"]):
        yield FieldError.invalid("tenant.logoutURL", "must be an absolute URL")


def _captcha_problems(tenant: Document) -> Iterator[FieldError]:
    settings = tenant["captchaConfiguration"]
    for name in ("siteKey", "secretKey"):
        if settings["enabled"] and not settings.get(name):
            yield FieldError.missing(f"tenant.captchaConfiguration.{name}")


def _password_problems(tenant: Document) -> Iterator[FieldError]:
    path = "tenant.passwordValidationRules"
    rules = tenant["passwordValidationRules"]
    if rules["minLength"] > rules["maxLength"]:
        yield FieldError.invalid(f"{path}.maxLength", "must not be less than the minimum length")
    detection = rules["breachDetection"]
    if detection["enabled"] and detection["onLogin"] == "NotifyUser" and "notifyUserEmailTemplateId" not in detection:
        yield FieldError.missing(f"{path}.breachDetection.notifyUserEmailTemplateId")


def _email_problems(tenant: Document) -> Iterator[FieldError]:
    path, email = "tenant.emailConfiguration", tenant["emailConfiguration"]
    if email["verifyEmail"] and "verificationEmailTemplateId" not in email:
        yield FieldError.missing(f"{path}.verificationEmailTemplateId")
    yield from mail_messages.address_problems(email["defaultFromEmail"], f"{path}.defaultFromEmail")
    yield from mail_messages.header_problems(email["additionalHeaders"], f"{path}.additionalHeaders")
    if email["verificationStrategy"] == "FormField" and email["unverified"]["behavior"] != "Gated":
        yield FieldError.invalid(f"{path}.verificationStrategy", "FormField requires unverified.behavior Gated")


def _multi_factor_problems(tenant: Document) -> Iterator[FieldError]:
    for method, required in (("email", ("templateId",)), ("sms", ("messengerId", "templateId"))):
        settings = tenant["multiFactorConfiguration"][method]
        if settings["enabled"]:
            yield from (
                FieldError.missing(f"tenant.multiFactorConfiguration.{method}.{name}")
                for name in required
                if name not in settings
            )


def token_problems(jwt_configuration: Document, path: str) -> list[FieldError]:
    """Return the errors of the lifetimes of a jwtConfiguration."""
    if jwt_configuration["refreshTokenExpirationPolicy"] != "SlidingWindowWithMaximumLifetime":
        return []
    maximum = jwt_configuration["refreshTokenSlidingWindowConfiguration"]["maximumTimeToLiveInMinutes"]
    if maximum >= jwt_configuration["refreshTokenTimeToLiveInMinutes"]:
        return []
    field = f"{path}.refreshTokenSlidingWindowConfiguration.maximumTimeToLiveInMinutes"
    return [FieldError.invalid(field, "must not be less than the time to live of a refresh token")]


def issuer_comparison_form(issuer: str) -> str:
    """Return the form in which issuers are unique: clients differ in how they treat case and a trailing slash."""
    return issuer.strip().rstrip("/").casefold()


def duplicate_issuers(tenants: Iterable[Document]) -> list[Document]:
    """Return `issuer` and `tenants` (id and name) of each issuer that several tenants share."""
    by_issuer = defaultdict(list)
    for tenant in tenants:
        by_issuer[issuer_comparison_form(tenant["issuer"])].append(tenant)
    return [
        {
            "issuer": sharing[0]["issuer"],
            "tenants": [{"tenantId": tenant["id"], "name": tenant["name"]} for tenant in sharing],
        }
        for _, sharing in sorted(by_issuer.items())
        if len(sharing) > 1
    ]
