"""MFARequirement lambdas: they decide whether a login, or another action, requires a second factor."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.configuration import administrator_realm as realm_rules
from identity.domain.objects import event_info
from identity.domain.two_factor import two_factor
from identity.domain.users import registrations, users
from identity.errors import LambdaFailed
from identity.operations.lambdas import lambdas
from identity.services import Services

KIND: Final = "MFARequirement"

_APPLICATION_MEMBERS: Final = ("active", "data", "id", "multiFactorConfiguration", "name", "roles", "tenantId")


@dataclasses.dataclass(frozen=True, slots=True)
class Situation:
    """What a decision is about; `default` is the decision without the lambda.

    `trusts` are the live trusts in the device, `threats` the published risk signals of the login, `client_risk` its
    level, and `jwt` the claims of the access token that the caller presented.
    """

    action: str
    default: bool
    trusts: Sequence[Document] = ()
    threats: Sequence[str] = ()
    client_risk: str | None = None
    jwt: Document | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """The decision of a lambda; `is_suspicious`: `user.login.suspicious` is to be sent."""

    is_required: bool
    is_suspicious: bool = False


def find_lambda_id(tenant: Document, application: Document | None) -> str | None:
    """Return the lambda of the application, else of its tenant. Logins to the console run none."""
    if realm_rules.is_application(application):
        return None
    return two_factor.requirement_lambda(tenant, application)


async def check(
    services: Services,
    call: Call,
    tenant: Document,
    application: Document | None,
    user: Document,
    situation: Situation,
) -> Requirement:
    """Run the lambda and return its decision; the default decision without a lambda.

    A lambda that fails, which the event log records, exempts nobody: every user who has a second factor is challenged.
    """
    lambda_id = find_lambda_id(tenant, application)
    if lambda_id is None:
        return Requirement(situation.default)
    registration = None if application is None else users.find_registration(user, application["id"])
    try:
        result, *_ = await lambdas.invoke(
            services,
            call,
            lambda_id,
            KIND,
            {"required": situation.default, "sendSuspiciousLoginEvent": False},
            users.without_secrets(user),
            None if registration is None else registrations.without_secrets(registration),
            context=_context(call, tenant, application, user, situation),
        )
        return await _read(services, call, lambda_id, result)
    except LambdaFailed:
        return Requirement(situation.default or bool(user["twoFactor"]["methods"]))


async def _read(services: Services, call: Call, lambda_id: str, result: Document) -> Requirement:
    """Return the decision that a lambda left in its result. Raises LambdaFailed."""
    values = [result.get("required"), result.get("sendSuspiciousLoginEvent", False)]
    if not all(isinstance(value, bool) for value in values):
        reason = "[required] and [sendSuspiciousLoginEvent] of the result must be of the kind boolean"
        raise await lambdas.log_failure(services, call, lambda_id, reason)
    return Requirement(*values)


def _context(
    call: Call, tenant: Document, application: Document | None, user: Document, situation: Situation
) -> Document:
    settings = {} if application is None else application["multiFactorConfiguration"]
    policies = {
        "applicationLoginPolicy": settings.get("loginPolicy"),
        "applicationMultiFactorTrustPolicy": None if application is None else two_factor.trust_policy(application),
        "tenantLoginPolicy": tenant["multiFactorConfiguration"]["loginPolicy"],
    }
    context = {
        "action": situation.action,
        "application": None
        if application is None
        else {name: application[name] for name in _APPLICATION_MEMBERS if name in application},
        "authenticationThreats": list(situation.threats),
        "clientRisk": situation.client_risk,
        "eventInfo": event_info.build(call),
        "jwt": situation.jwt,
        "mfaTrust": _trust(user, situation.trusts),
        "policies": {name: value for name, value in policies.items() if value is not None},
    }
    return {name: value for name, value in context.items() if value is not None}


def _trust(user: Document, trusts: Sequence[Document]) -> Document | None:
    """Return the trust in the device in its published form, without its id, which is a secret."""
    if not trusts:
        return None
    applications = {trust["applicationId"]: trust["startInstant"] for trust in trusts if trust.get("applicationId")}
    of_tenant = [trust["startInstant"] for trust in trusts if not trust.get("applicationId")]
    return {
        "expirationInstant": max(trust["expiration"] for trust in trusts),
        "insertInstant": min(trust["startInstant"] for trust in trusts),
        "startInstants": {"applications": applications, **({"tenant": min(of_tenant)} if of_tenant else {})},
        "tenantId": user["tenantId"],
        "userId": user["id"],
    }
