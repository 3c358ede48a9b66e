"""What stands between a login and its tokens: the roles of the user's groups, and the lambdas that add to the claims.

Both read from memory alone; where there are none, nothing is awaited that takes time.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.lambdas import lambdas as rules
from identity.domain.users import registrations, users
from identity.errors import InvalidTarget
from identity.operations.groups import group_roles
from identity.operations.lambdas import lambdas
from identity.services import Services
from identity.tokens import entity_tokens, jws
from identity.tokens.access_tokens import TokenContext
from identity.tokens.issuer import IssuedToken, Populate

_CLIENT_LAMBDA: Final = "clientCredentialsAccessTokenPopulateLambdaId"


async def access_token(services: Services, call: Call, login: TokenContext, *, ttl: int | None = None) -> IssuedToken:
    """A new access token with the roles of all groups and what the lambda makes of it. Raises LambdaFailed."""
    login = await _effective(services, login)
    populate = _populate(services, call, login, "accessTokenPopulateId")
    issued = await services.tokens.access_token(login, call.now, ttl=ttl, populate=populate)
    if login.resources and len(issued.token) > jws.MAXIMUM_LENGTH:
        # We would not read it again ourselves.
        raise InvalidTarget(None, "The resources do not fit into one access token.")
    return issued


async def id_token(
    services: Services, call: Call, login: TokenContext, *, access_token: str | None = None, code: str | None = None
) -> IssuedToken:
    """A new ID token with what the application's lambda makes of it. Raises LambdaFailed."""
    login = await _effective(services, login)
    populate = _populate(services, call, login, "idTokenPopulateId")
    return await services.tokens.id_token(login, call.now, access_token=access_token, code=code, populate=populate)


async def userinfo(
    services: Services, call: Call, application: Document, user: Document, token: Mapping[str, Any], claims: Document
) -> Document:
    """The userinfo response as the application's lambda leaves it. Raises LambdaFailed."""
    lambda_id = application["lambdaConfiguration"].get("userinfoPopulateId")
    if lambda_id is None:
        return claims
    about = _about(await group_roles.with_group_roles(services.documents, user), application)
    after, *_ = await lambdas.invoke(services, call, lambda_id, "UserInfoPopulate", claims, *about, dict(token))
    return rules.populated(claims, after, rules.USERINFO_CLAIMS)


def has_client_lambda(tenant: Document) -> bool:
    """Whether there is a lambda that adds to the tokens of entities; without one nothing need be made ready for it."""
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
    """The claims of an entity's token as the tenant's lambda leaves them. Raises LambdaFailed.

    `recipient` is the entity that asks, `targets` are those it asks for, `permissions` what it has at each of them.
    """
    lambda_id = tenant["oauthConfiguration"].get(_CLIENT_LAMBDA)
    if lambda_id is None:
        return claims
    given = (recipient, list(targets), {name: list(granted) for name, granted in permissions.items()})
    kind = "ClientCredentialsJWTPopulate"
    return await _populated(services, call, lambda_id, kind, rules.CLIENT_TOKEN_CLAIMS, claims, given)


async def _effective(services: Services, login: TokenContext) -> TokenContext:
    user = await group_roles.with_group_roles(services.documents, login.user)
    return login if user is login.user else dataclasses.replace(login, user=user)


def _populate(services: Services, call: Call, login: TokenContext, member: str) -> Populate | None:
    lambda_id = login.application["lambdaConfiguration"].get(member)
    if lambda_id is None:
        return None
    about = _about(login.user, login.application)
    return functools.partial(_populated, services, call, lambda_id, "JWTPopulate", rules.USER_TOKEN_CLAIMS, given=about)


async def _populated(
    services: Services,
    call: Call,
    lambda_id: str,
    kind: str,
    reserved: Collection[str],
    claims: Document,
    given: Sequence[Any],
) -> Document:
    after, *_ = await lambdas.invoke(services, call, lambda_id, kind, claims, *given)
    populated = rules.populated(claims, after, reserved)
    if entity_tokens.is_entity_token(populated) and not entity_tokens.is_entity_token(claims):
        raise await lambdas.log_failure(
            services, call, lambda_id, "the token of a user cannot say that it is an entity's"
        )
    if not jws.has_valid_claim_types(populated):
        raise await lambdas.log_failure(services, call, lambda_id, "a registered claim has a value of the wrong type")
    return populated


def _about(user: Document, application: Document) -> tuple[Document, Document | None]:
    """The user and the registration, as a lambda may see them."""
    registration = users.find_registration(user, application["id"])
    return users.without_secrets(user), None if registration is None else registrations.without_secrets(registration)
