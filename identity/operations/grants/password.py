"""grant_type=password: the user's own password for tokens (RFC 6749 section 4.3).

RFC 9700 section 2.4 advises against it: an application has it only where its `enabledGrants` names it. Nothing can be
shown to the user here, so that whatever a page would ask for ends the request: a second factor, a new password, a
verification, a consent that was not given before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.authorization import consent
from identity.domain.clients import resource_indicators, scopes
from identity.domain.login import authentication_methods
from identity.domain.login import login_outcomes as steps
from identity.errors import (
    ChangePasswordRequired,
    InvalidGrant,
    InvalidRequest,
    LoginPrevented,
    OAuth2Error,
    TwoFactorRequired,
    WebhookTransactionFailed,
)
from identity.operations.authorization import device_grants
from identity.operations.authorization.device_grants import Approver
from identity.operations.clients import dpop_proofs
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.clients.clients import Client
from identity.operations.configuration import scope_consents
from identity.operations.issuance import token_responses
from identity.operations.login import password_login, two_factor_challenges
from identity.operations.login.password_login import Credentials
from identity.operations.objects import features
from identity.operations.password_changes import password_changes
from identity.services import Services
from identity.tokens.access_tokens import TokenContext

grant_type = "password"
parameters = (
    "username",
    "loginId",
    "password",
    "scope",
    "resource",
    "user_code",
    "metaData.device.description",
    "metaData.device.name",
    "metaData.device.type",
)

_DEVICE = "metaData.device."
_REFUSALS: Mapping[type[steps.LoginResult], tuple[str, str]] = {
    steps.WrongCredentials: ("invalid_user_credentials", "The user credentials are invalid."),
    steps.Deactivated: ("user_locked", "The user is locked."),
    steps.AccountLocked: ("login_prevented", "Too many attempts failed: the account is locked."),
    steps.ActionPrevents: ("login_prevented", "An action on the user prevents the login."),
    steps.Expired: ("user_expired", "The user has expired."),
    steps.EmailNotVerified: ("email_verification_required", "The email address has to be verified first."),
    steps.RegistrationNotVerified: ("registration_verification_required", "The registration has to be verified first."),
}


async def exchange(services: Services, call: Call, identified: IdentifiedClient, form: Document) -> Document:
    """The token response for a login id and a password.

    Raises InvalidRequest, InvalidScope, InvalidGrant, TwoFactorRequired, ChangePasswordRequired, and Unavailable when
    too many passwords wait to be compared. What is wrong with a user is told only for the right password.
    """
    client = identified.client
    credentials = _credentials(form)
    wanted = _wanted(client, form.get("scope"))
    features.require_request(services, client.application, wanted)
    targets = resource_indicators.parse(form.get("resource"), client.oauth)
    device = {name[len(_DEVICE) :]: value for name, value in form.items() if name.startswith(_DEVICE)}
    waiting = await device_grants.find_for_token_request(services, call, identified, form)
    user = await _logged_in(services, call, identified, credentials, device)
    granted = await scope_consents.get_granted_scopes(services, call, client, user, wanted)
    found = TokenContext(
        tenant=client.tenant,
        application=client.application,
        user=user,
        scopes=granted,
        grants=(grant_type,),
        authentication_type="PASSWORD",
        auth_instant=call.now,
        confirmation=dpop_proofs.confirmation_claim(identified.key_thumbprint),
        authentication_methods=authentication_methods.of("PASSWORD"),
        resources=targets,
    )
    if waiting is not None:
        await device_grants.approve(services, call, client, waiting, Approver.of(found, granted))
    _, answer = await token_responses.issue_tokens(services, call, client, found, device, pkce_verified=False)
    return answer


def _credentials(form: Document) -> Credentials:
    """`loginId`, the name that the management API has for it, will do for `username`."""
    if "username" in form and form.get("loginId", form["username"]) != form["username"]:
        raise InvalidRequest("unknown", "The parameters username and loginId name two different users.")
    name = "loginId" if "loginId" in form else "username"
    return Credentials(
        token_responses.required_parameter(form, name, "unknown"),
        token_responses.required_parameter(form, "password", "unknown"),
    )


def _wanted(client: Client, requested: str | None) -> tuple[str, ...]:
    """The scopes that the application's policies leave.

    Nobody can be asked here: where the user would have to be in any case, the request ends before a password is
    compared; where an answer may be remembered, it is looked for after the login.
    """
    kept = scopes.apply_policy(scopes.parse(requested), client.oauth, client.application["scopes"])
    asked = consent.scopes_to_ask_for(client.application, kept)
    if asked and not consent.remembers_decisions(client.application):
        raise scope_consents.consent_required(asked)
    return kept


async def _logged_in(
    services: Services, call: Call, identified: IdentifiedClient, credentials: Credentials, device: Mapping[str, str]
) -> Document:
    """The user, as the login leaves it. Webhooks learn of the device that the request names."""
    info = {f"device{name.capitalize()}": value for name, value in device.items()}
    client = identified.client
    inside = dataclasses.replace(
        call, tenant_id=client.tenant_id, event_info=info, is_client_authenticated=identified.has_credentials
    )
    try:
        result = await password_login.authenticate(services, inside, credentials, client.application)
    except WebhookTransactionFailed as error:
        raise InvalidGrant("unknown", "A webhook refused this login.") from error
    except LoginPrevented as error:
        raise InvalidGrant("login_prevented", " ".join(error.messages)) from error
    if isinstance(result, steps.SecondFactorRequired):
        raise await _second_factor(services, inside, client, result)
    if isinstance(result, steps.PasswordChangeRequired):
        raise await _change_required(services, inside, client, result)
    if not isinstance(result, steps.LoggedIn):
        raise _refusal(result)
    return result.user


async def _second_factor(
    services: Services, call: Call, client: Client, result: steps.SecondFactorRequired
) -> TwoFactorRequired:
    """What a login that waits for a second factor, and ends at /api/two-factor/login, is told."""
    waiting = await two_factor_challenges.challenge_login(services, call, client, result)
    extra = {"two_factor_id": waiting["twoFactorId"], "two_factor_methods": waiting["methods"]}
    return TwoFactorRequired(None, "A second factor is required.", extra=extra)


async def _change_required(
    services: Services, call: Call, client: Client, result: steps.PasswordChangeRequired
) -> OAuth2Error:
    """The refusal with the id that changes the password."""
    change_id = await password_changes.issue_required_change_id(
        services, call, client.tenant, result.user, reason=result.reason, application=client.application
    )
    reason = f"change_password_{result.reason.lower()}"
    return ChangePasswordRequired(
        reason, "The password has to be changed first.", extra={"change_password_id": change_id}
    )


def _refusal(
    result: steps.WrongCredentials | steps.TooManyAttempts | steps.AccountLocked | steps.Halt,
) -> OAuth2Error:
    """What stands between a user and the tokens, in the words of the API."""
    if isinstance(result, steps.TooManyAttempts):
        return InvalidGrant("unknown", f"Too many attempts failed. Try again in {result.wait_seconds} seconds.")
    return InvalidGrant(*_REFUSALS[type(result)])
