"""Users as the API shows them: to callers, and to the templates of mails."""

from __future__ import annotations

from identity.call import Document
from identity.domain.passwords import password_hashing
from identity.domain.users import users as rules
from identity.operations.groups import group_roles
from identity.services import Services

SCHEMA = "api/user.json"


async def to_response(services: Services, user: Document) -> Document:
    """The user as the API shows it, with the roles of its groups."""
    effective = await group_roles.with_group_roles(services.documents, user)
    shown: Document = services.schemas[SCHEMA].show({"user": rules.without_private_members(effective)})["user"]
    return shown


async def to_retrieve_response(services: Services, user: Document) -> Document:
    """As `answer`, with the scheme of the password, which only a retrieve tells."""
    password = password_hashing.stored_password(user)
    return await to_response(services, user) | ({} if password is None else {"encryptionScheme": password.scheme})
