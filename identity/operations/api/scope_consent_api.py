"""Remembered decisions of users, for those who manage them: list, read, withdraw.

Withdrawing one signs the application out: its refresh tokens end, and the access tokens that came of them.
"""

from __future__ import annotations

import functools
from typing import Any

from identity.call import Call, Document
from identity.errors import NotFound
from identity.events.changes import Change, Write
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.objects import user_lookup
from identity.operations.sessions import session_termination
from identity.services import Services
from identity.store.mongo import Session

_SHOWN = ("applicationId", "approved", "declined", "insertInstant", "lastUpdateInstant", "tenantId", "userId")


async def retrieve_all(services: Services, call: Call, user_id: str) -> list[Document]:
    """Every decision of a user that is remembered, the newest answer first. Raises NotFound for an unknown user."""
    user = await _user(services, call, user_id)
    found = await services.tokens.scope_consents.find_of_user(TenantId(user["tenantId"]), UserId(user["id"]), call.now)
    return [_shown(one) for one in sorted(found, key=lambda one: -one["lastUpdateInstant"])]


async def retrieve(services: Services, call: Call, user_id: str, application_id: str) -> Document:
    """What a user decided about an application. Raises NotFound where nothing is remembered."""
    user = await _user(services, call, user_id)
    found = await services.tokens.scope_consents.find_live(
        TenantId(user["tenantId"]), UserId(user["id"]), ApplicationId(application_id), call.now
    )
    if found is None:
        raise NotFound(log_detail=f"scope consent of {user_id} for {application_id}")
    return _shown(found)


async def withdraw(services: Services, call: Call, user_id: str, application_id: str) -> None:
    """Forget what a user decided about an application, and sign the application out. Raises NotFound.

    Both happen or neither. `jwt.refresh-token.revoke` tells of the tokens, and no webhook can keep a user from it.
    """
    user = await _user(services, call, user_id)
    tenant_id, client_id = TenantId(user["tenantId"]), ApplicationId(application_id)
    sign_out = await session_termination.prepare(services, call, user, client_id)
    remove = functools.partial(_remove, services, tenant_id, UserId(user["id"]), client_id)
    writes: list[Write[Any]] = [remove, *session_termination.writes(services, call, sign_out)]
    await services.bus.commit(call.within(tenant_id), Change(writes, after_commit=sign_out.events))
    await session_termination.finish(services, call, sign_out)


async def _remove(
    services: Services, tenant_id: TenantId, user_id: UserId, client_id: ApplicationId, session: Session | None
) -> None:
    if not await services.tokens.scope_consents.remove(tenant_id, user_id, client_id, session):
        raise NotFound(log_detail=f"scope consent of {user_id} for {client_id}")


async def _user(services: Services, call: Call, user_id: str) -> Document:
    return await services.directory.users.get(await user_lookup.get_tenant_id(services, call, user_id), user_id)


def _shown(consent: Document) -> Document:
    return {**{name: consent[name] for name in _SHOWN}, "expirationInstant": consent["expiresAt"]}
