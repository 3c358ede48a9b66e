"""The login page: what it says of a failed attempt, and how it carries the authorization request along."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from identity.domain import login as steps
from identity.operations import authorization
from identity.operations.authorization import LoginPage, Problem
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, render
from identity.web.oauth2.family import OAuth2Handler

CSRF_MESSAGE = "This page was open for too long or came from somewhere else. Please sign in again."

_MESSAGES: Mapping[type[Problem], str] = {
    steps.WrongCredentials: "The email, username or password is not right.",
    steps.TooManyAttempts: "Too many attempts. Please wait a while and try again.",
    steps.Deactivated: "This account is locked.",
    steps.Expired: "This account has expired.",
    steps.SecondFactorRequired: "This account asks for a second factor, which cannot be given on this page.",
    steps.PasswordChangeRequired: "The password of this account has to be changed before you can sign in.",
    steps.EmailNotVerified: "The email address of this account has to be verified before you can sign in.",
    steps.RegistrationNotVerified: "Your registration for this application has to be verified before you can sign in.",
    authorization.NotRegistered: "This account is not registered for this application.",
    authorization.UnknownProvider: "The identity provider that the application asked for does not exist.",
    authorization.Vetoed: "This sign-in was refused.",
    authorization.Busy: "Too many people are signing in right now. Please try again.",
}


def reply(
    handler: OAuth2Handler,
    page: LoginPage,
    given: Mapping[str, str],
    names: Collection[str],
    *,
    remember_device: bool = False,
    message: str = "",
    status: int = 200,
) -> Reply:
    """The page. `given` are the parameters of the request, of which those in `names` are carried along."""
    token, cookie = csrf.issue(handler)
    carried = tuple((name, given[name]) for name in names if name in given)
    form = render.LoginForm(
        application_name=page.client.application["name"],
        action=handler.request.path,
        hidden=(*carried, (csrf.FIELD, token)),
        redirect_uri=given["redirect_uri"],
        login_id=page.login_id,
        remember_device=remember_device,
        message=message or ("" if page.problem is None else _MESSAGES[type(page.problem)]),
        is_invalid=isinstance(page.problem, steps.WrongCredentials),
        status=status,
    )
    return render.login(form, [cookie])
