"""Tokens with the roles of the user's groups and the claims that lambdas add.

Groups and lambdas are read from caches; without any, issuing a token costs nothing more.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.lambdas import lambdas as lambda_rules
from identity.domain.users import registrations, users
from identity.errors import InvalidTarget, LambdaFailed
from identity.operations.groups import group_roles
from identity.operations.lambdas import lambdas
from identity.services import Services
from identity.tokens import access_tokens, jws
from identity.tokens.access_tokens import TokenContext
from identity.tokens.issuer import IssuedToken, Populate

_CLIENT_LAMBDA: Final = "clientCredentialsAccessTokenPopulateLambdaId"


async def access_token(services: Services, call: Call, login: TokenContext, *, ttl: int | None = None) -> IssuedToken:
    """Issue an access token with group roles, populated by the application's lambda."""
    login = await _with_group_roles(services, login)
    populate = _populate(services, call, login, "accessTokenPopulateId")
    issued = await services.tokens.issuer.access_token(login, call.now, ttl=ttl, populate=populate)
    if login.resources and len(issued.token) > jws.MAXIMUM_LENGTH:
        # The service itself would reject such a token.
        raise InvalidTarget(None, "The resources do not fit into one access token.")
    return issued


async def id_token(
    services: Services, call: Call, login: TokenContext, *, access_token: str | None = None, code: str | None = None
) -> IssuedToken:
    """Issue an ID token, populated by the application's lambda."""
    login = await _with_group_roles(services, login)
    populate = _populate(services, call, login, "idTokenPopulateId")
    return await services.tokens.issuer.id_token(
        login, call.now, access_token=access_token, code=code, populate=populate
    )


async def userinfo(
    services: Services, call: Call, application: Document, user: Document, token: Mapping[str, Any], claims: Document
) -> Document:
    """The userinfo response, populated by the application's lambda. Raises LambdaFailed."""
    lambda_id = application["lambdaConfiguration"].get("userinfoPopulateId")
    if lambda_id is None:
        return claims
    user_arguments = _user_arguments(await group_roles.with_group_roles(services, user), application)
    returned, *_ = await lambdas.invoke(
        services, call, lambda_id, "UserInfoPopulate", claims, *user_arguments, dict(token)
    )
    return lambda_rules.populated(claims, returned, lambda_rules.USERINFO_CLAIMS)


def has_client_lambda(tenant: Document) -> bool:
    """Whether a lambda populates the tokens of entities."""
    return tenant["oauthConfiguration"].get(_CLIENT_LAMBDA) is not None


async def client_credentials(
    services: Services,
    call: Call,
    tenant: Document,
    claims: Document,
    recipient: Document,
    targets: Sequence[Document],
    permissions: Mapping[str, Sequence[str]],
) -> Document:
    """The claims of an entity's token, populated by the tenant's lambda. Raises LambdaFailed.

    `recipient` is the requesting entity, `targets` the requested ones, `permissions` its permissions by target.
    """
    lambda_id = tenant["oauthConfiguration"].get(_CLIENT_LAMBDA)
    if lambda_id is None:
        return claims
    given = (recipient, list(targets), {name: list(granted) for name, granted in permissions.items()})
    kind = "ClientCredentialsJWTPopulate"
    return await _populate_claims(services, call, lambda_id, kind, lambda_rules.CLIENT_TOKEN_CLAIMS, claims, given)


async def _with_group_roles(services: Services, login: TokenContext) -> TokenContext:
    user = await group_roles.with_group_roles(services, login.user)
    return login if user is login.user else dataclasses.replace(login, user=user)


def _populate(services: Services, call: Call, login: TokenContext, member: str) -> Populate | None:
    lambda_id = login.application["lambdaConfiguration"].get(member)
    return None if lambda_id is None else functools.partial(_populate_user_token, services, call, lambda_id, login)


async def _populate_user_token(
    services: Services, call: Call, lambda_id: str, login: TokenContext, claims: Document
) -> Document:
    """Return the claims of a user's token as the lambda populates them; as they are if it fails, as published."""
    given, context = _user_arguments(login.user, login.application), {"scopes": list(login.scopes)}
    try:
        return await _populate_claims(
            services, call, lambda_id, "JWTPopulate", lambda_rules.USER_TOKEN_CLAIMS, claims, given, context
        )
    except LambdaFailed:  # the event log has the reason
        return claims


async def _populate_claims(
    services: Services,
    call: Call,
    lambda_id: str,
    kind: str,
    reserved: Collection[str],
    claims: Document,
    given: Sequence[Any],
    context: Document | None = None,
) -> Document:
    returned, *_ = await lambdas.invoke(services, call, lambda_id, kind, claims, *given, context=context)
    populated = lambda_rules.populated(claims, returned, reserved)
    if access_tokens.is_entity_token(populated) and not access_tokens.is_entity_token(claims):
        raise await lambdas.log_failure(
            services, call, lambda_id, "the token of a user cannot say that it is an entity's"
        )
    if not jws.has_valid_claim_types(populated):
        raise await lambdas.log_failure(services, call, lambda_id, "a registered claim has a value of the wrong type")
    return populated


def _user_arguments(user: Document, application: Document) -> tuple[Document, Document | None]:
    """The user and registration arguments of a lambda, without secrets."""
    registration = users.find_registration(user, application["id"])
    return users.without_secrets(user), None if registration is None else registrations.without_secrets(registration)
