"""Whether a login requires a second factor: the login policy, the trust in the device, the risk, and a lambda.

Every login takes the decision once its first factor is verified, and again at each step before it is complete.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.domain.login import client_risk
from identity.domain.login.client_risk import ClientRisk
from identity.domain.login.login_outcomes import Authenticated, SecondFactorDecision
from identity.domain.two_factor import two_factor
from identity.operations.lambdas import mfa_requirement_lambdas
from identity.operations.lambdas.mfa_requirement_lambdas import Situation
from identity.operations.login import login_risk
from identity.operations.two_factor import two_factor_trust
from identity.services import Services

LOGIN: Final = "login"
CREDENTIAL_CHANGE: Final = "changePassword"


async def decide(
    services: Services, call: Call, login: Authenticated, trust_secret: str | None, *, is_new_device: bool = False
) -> Authenticated:
    """Return the login with the decision about its second factor.

    `trust_secret` is the secret of the device that may be trusted. Where the policy alone decides, a trusted device
    satisfies the second factor. The risk and a lambda decide about trusted devices too.
    Raises Unavailable if too many lambdas are queued.
    """
    if login.has_second_factor:
        return login
    tenant, application = login.tenant, login.application
    has_lambda = mfa_requirement_lambdas.find_lambda_id(tenant, application) is not None
    if not has_lambda and not login_risk.is_assessed(tenant, application):
        return await two_factor_trust.apply_device_trust(services, call, login, trust_secret)
    trusts = await two_factor_trust.find_trusts(services, call, login.user, trust_secret)
    is_trusted = bool(two_factor.valid_trusts(trusts, application, call.now))
    risk = await login_risk.assess(
        services, call, tenant, login.user, is_new_device=is_new_device, is_trusted=is_trusted
    )
    default = is_required_by_policy(tenant, application, login.user, risk, is_trusted=is_trusted)
    if not has_lambda:
        # The trust satisfies the second factor as in apply_device_trust, only if there is one to satisfy.
        is_satisfied = is_trusted and not default and _is_challenged_untrusted(login)
        decision = SecondFactorDecision(default, risk=risk)
        return dataclasses.replace(login, decision=decision, has_second_factor=is_satisfied)
    situation = Situation(LOGIN, default, trusts, risk.published_threats, risk.level.name)
    required = await mfa_requirement_lambdas.check(services, call, tenant, application, login.user, situation)
    decision = SecondFactorDecision(required.is_required, required.is_suspicious, risk)
    return dataclasses.replace(login, decision=decision)


def _is_challenged_untrusted(login: Authenticated) -> bool:
    """Return whether the policy alone requires a second factor on a device that is not trusted."""
    tenant, application = login.tenant, login.application
    is_static = two_factor.login_policy(tenant, application) not in client_risk.POLICY_LEVELS
    return is_static and two_factor.is_challenged(tenant, application, login.user, is_trusted=False)


async def is_required_for_login(services: Services, call: Call, login: Authenticated, trust_secret: str | None) -> bool:
    """Return whether a login would require a second factor now."""
    decided = await decide(services, call, login, trust_secret)
    if decided.decision is not None:
        return decided.decision.is_required
    is_trusted = decided.has_second_factor
    return two_factor.is_challenged(login.tenant, login.application, login.user, is_trusted=is_trusted)


def is_required_by_policy(
    tenant: Document, application: Document | None, user: Document, risk: ClientRisk, *, is_trusted: bool
) -> bool:
    """Return whether the login policy requires a second factor at this risk.

    A policy that depends on the risk challenges trusted devices as well: the trust only lowers the risk.
    """
    level = client_risk.POLICY_LEVELS.get(two_factor.login_policy(tenant, application))
    if level is None:
        return two_factor.is_challenged(tenant, application, user, is_trusted=is_trusted)
    return bool(user["twoFactor"]["methods"]) and risk.level >= level


async def is_required_for_action(
    services: Services,
    call: Call,
    tenant: Document,
    application: Document | None,
    user: Document,
    action: str,
    *,
    trust_secret: str | None = None,
    jwt: Document | None = None,
) -> bool:
    """Return whether an action other than a login requires a second factor: that of every user who has one.

    Neither a trusted device nor a low risk exempts a change of the password or a step-up, but a lambda may.
    """
    default = bool(user["twoFactor"]["methods"]) and two_factor.login_policy(tenant, application) != two_factor.DISABLED
    if mfa_requirement_lambdas.find_lambda_id(tenant, application) is None:
        return default
    trusts = await two_factor_trust.find_trusts(services, call, user, trust_secret)
    is_trusted = bool(two_factor.valid_trusts(trusts, application, call.now))
    risk = await login_risk.assess(services, call, tenant, user, is_new_device=False, is_trusted=is_trusted)
    situation = Situation(action, default, trusts, risk.published_threats, risk.level.name, jwt)
    return (await mfa_requirement_lambdas.check(services, call, tenant, application, user, situation)).is_required
