"""The login page: what it says of a failed attempt, and how it carries the authorization request along."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from identity.domain import login as steps
from identity.operations import authorization_steps as outcomes
from identity.operations import request_sources
from identity.operations.authorization_steps import LoginPage, Problem
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, looks, render
from identity.web.oauth2.family import OAuth2Handler

STALE = "login.stale"
"""The text for a form that this browser was not shown."""

_MESSAGES: Mapping[type[Problem], str] = {
    steps.WrongCredentials: "[InvalidLogin]",
    steps.TooManyAttempts: "[TooManyAttempts]",
    steps.Deactivated: "[UserLockedException]",
    steps.Expired: "[UserExpiredException]",
    steps.SecondFactorRequired: "[TwoFactorRequired]",
    steps.PasswordChangeRequired: "[PasswordChangeRequired]",
    steps.EmailNotVerified: "[EmailNotVerified]",
    steps.RegistrationNotVerified: "[RegistrationNotVerified]",
    outcomes.NotRegistered: "[UserAuthorizedNotRegisteredException]",
    outcomes.UnknownProvider: "[InvalidIdentityProviderId]",
    outcomes.Vetoed: "[LoginPreventedException]",
    outcomes.Prevented: "[LoginPreventedException]",
    outcomes.Busy: "[RateLimited]",
}
"""Problem -> the key of its text."""


async def reply(
    handler: OAuth2Handler,
    page: LoginPage,
    given: Mapping[str, str],
    names: Collection[str],
    *,
    remember_device: bool = False,
    message: str = "",
    status: int = 200,
) -> Reply:
    """The page. `given` are the parameters of the request, of which those in `names` are carried along.

    `message` is the key of a text that is shown instead of the problem's; what a lambda says of a login it refuses is
    shown as it stands.
    """
    look = await looks.of(handler, page.client.tenant, page.client.application, given)
    prevented = page.problem if isinstance(page.problem, outcomes.Prevented) else None
    key = message or ("" if page.problem is None else _MESSAGES[type(page.problem)])
    token, cookie = csrf.issue(handler)
    kept = request_sources.carried(given)
    carried = tuple((name, kept[name]) for name in names if name in kept)
    form = render.LoginForm(
        application_name=page.client.application["name"],
        action=authorize_path(handler),
        hidden=(*carried, (csrf.FIELD, token)),
        redirect_uri=given["redirect_uri"],
        login_id=page.login_id,
        remember_device=remember_device,
        message=" ".join(prevented.messages) if prevented and not message else look[key] if key else "",
        is_invalid=isinstance(page.problem, steps.WrongCredentials),
        status=status,
    )
    return render.login(form, look, [cookie])


def authorize_path(handler: OAuth2Handler) -> str:
    """Where the form of the login page goes, whichever page of the login shows it."""
    return handler.request.path.rpartition("/")[0] + "/authorize"
