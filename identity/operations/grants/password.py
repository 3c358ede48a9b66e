"""grant_type=password: the user's password for tokens (RFC 6749 section 4.3).

RFC 9700 section 2.4 advises against this grant; an application has to enable it. The grant shows no page, so a second
factor, a password change, a verification or a missing consent fails the request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.authorization import consent
from identity.domain.clients import resource_indicators, scopes
from identity.domain.login import authentication_methods, login_outcomes
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
from identity.operations.clients.client_authentication import AuthenticatedClient
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
_ERRORS: Mapping[type[login_outcomes.LoginResult], tuple[str, str]] = {
    login_outcomes.WrongCredentials: ("invalid_user_credentials", "The user credentials are invalid."),
    login_outcomes.Deactivated: ("user_locked", "The user is locked."),
    login_outcomes.AccountLocked: ("login_prevented", "Too many attempts failed: the account is locked."),
    login_outcomes.ActionPrevents: ("login_prevented", "An action on the user prevents the login."),
    login_outcomes.Expired: ("user_expired", "The user has expired."),
    login_outcomes.EmailNotVerified: ("email_verification_required", "The email address has to be verified first."),
    login_outcomes.RegistrationNotVerified: (
        "registration_verification_required",
        "The registration has to be verified first.",
    ),
}


async def exchange(services: Services, call: Call, authenticated: AuthenticatedClient, form: Document) -> Document:
    """Return the token response for a login id and a password.

    Errors about the user are returned only for the correct password. Raises InvalidRequest, InvalidScope,
    InvalidGrant, TwoFactorRequired, ChangePasswordRequired, and Unavailable if the password hashing queue is full.
    """
    client = authenticated.client
    credentials = _read_credentials(form)
    requested_scopes = _requested_scopes(client, form.get("scope"))
    features.require_request(services, client.application, requested_scopes)
    resources = resource_indicators.parse(form.get("resource"), client.oauth)
    device = {name[len(_DEVICE) :]: value for name, value in form.items() if name.startswith(_DEVICE)}
    device_grant = await device_grants.find_for_token_request(services, call, authenticated, form)
    user = await _authenticate(services, call, authenticated, credentials, device)
    scopes_granted = await scope_consents.get_granted_scopes(services, call, client, user, requested_scopes)
    context = TokenContext(
        tenant=client.tenant,
        application=client.application,
        user=user,
        scopes=scopes_granted,
        grants=(grant_type,),
        authentication_type="PASSWORD",
        auth_instant=call.now,
        confirmation=authenticated.confirmation,
        authentication_methods=authentication_methods.of("PASSWORD"),
        resources=resources,
    )
    if device_grant is not None:
        approver = Approver.of(context, scopes_granted)
        await device_grants.approve(services, call, client, device_grant, approver)
    _, response = await token_responses.issue_tokens(services, call, client, context, device, pkce_verified=False)
    return response


def _read_credentials(form: Document) -> Credentials:
    """Read the credentials; `loginId`, its name in the management API, is accepted for `username`."""
    if "username" in form and form.get("loginId", form["username"]) != form["username"]:
        raise InvalidRequest("unknown", "The parameters username and loginId name two different users.")
    name = "loginId" if "loginId" in form else "username"
    login_id = token_responses.required_parameter(form, name, "unknown")
    return Credentials(login_id, token_responses.required_parameter(form, "password", "unknown"))


def _requested_scopes(client: Client, requested: str | None) -> tuple[str, ...]:
    """Return the requested scopes that the application's policies allow. Raises InvalidScope.

    An application that prompts for consent at every login fails before the password is verified; if it remembers
    decisions, the decision is checked after the login.
    """
    allowed = scopes.apply_policy(scopes.parse(requested), client.oauth, client.application["scopes"])
    missing = consent.scopes_requiring_consent(client.application, allowed)
    if missing and not consent.remembers_decisions(client.application):
        raise scope_consents.consent_required(missing)
    return allowed


async def _authenticate(
    services: Services,
    call: Call,
    authenticated: AuthenticatedClient,
    credentials: Credentials,
    device: Mapping[str, str],
) -> Document:
    """Return the authenticated user. The login's events describe the device that the request names."""
    event_info = {f"device{name.capitalize()}": value for name, value in device.items()}
    client = authenticated.client
    call = dataclasses.replace(
        call, tenant_id=client.tenant_id, event_info=event_info, is_client_authenticated=authenticated.has_credentials
    )
    try:
        result = await password_login.authenticate(services, call, credentials, client.application)
    except WebhookTransactionFailed as error:
        raise InvalidGrant("unknown", "A webhook rejected this login.") from error
    except LoginPrevented as error:
        raise InvalidGrant("login_prevented", " ".join(message for _, message in error.texts)) from error
    if isinstance(result, login_outcomes.SecondFactorRequired):
        raise await _second_factor_required(services, call, client, result)
    if isinstance(result, login_outcomes.PasswordChangeRequired):
        raise await _password_change_required(services, client, result)
    if not isinstance(result, login_outcomes.LoggedIn):
        raise _error(result)
    return result.user


async def _second_factor_required(
    services: Services, call: Call, client: Client, result: login_outcomes.SecondFactorRequired
) -> TwoFactorRequired:
    """Return the error with a two-factor challenge, which /api/two-factor/login completes."""
    challenge = await two_factor_challenges.challenge_login(services, call, client, result)
    extra = {"two_factor_id": challenge["twoFactorId"], "two_factor_methods": challenge["methods"]}
    return TwoFactorRequired(None, "A second factor is required.", extra=extra)


async def _password_change_required(
    services: Services, client: Client, result: login_outcomes.PasswordChangeRequired
) -> OAuth2Error:
    """Return the error with the id that changes the password."""
    change_id = await password_changes.issue_required_change_id(services, client.tenant, result, client.application)
    reason = f"change_password_{result.reason.lower()}"
    return ChangePasswordRequired(
        reason, "The password has to be changed first.", extra={"change_password_id": change_id}
    )


def _error(
    result: login_outcomes.WrongCredentials
    | login_outcomes.TooManyAttempts
    | login_outcomes.AccountLocked
    | login_outcomes.Halt,
) -> OAuth2Error:
    if isinstance(result, login_outcomes.TooManyAttempts):
        return InvalidGrant("unknown", f"Too many attempts failed. Try again in {result.wait_seconds} seconds.")
    return InvalidGrant(*_ERRORS[type(result)])
