"""Users in the form of API responses, which mail templates use as well."""

from __future__ import annotations

from identity.call import Document
from identity.domain.passwords import password_hashing
from identity.domain.users import users as user_rules
from identity.operations.groups import group_roles
from identity.services import Services

SCHEMA = "api/user.json"


async def to_response(services: Services, user: Document) -> Document:
    """The user in the form of the API, including the roles of its groups."""
    user = await group_roles.with_group_roles(services, user)
    response: Document = services.schemas[SCHEMA].show({"user": user_rules.without_private_members(user)})["user"]
    return response


async def to_retrieve_response(services: Services, user: Document) -> Document:
    """As `to_response`, with the `encryptionScheme` of the password, which only a retrieve returns."""
    password = password_hashing.stored_password(user)
    return await to_response(services, user) | ({} if password is None else {"encryptionScheme": password.scheme})
