"""The API of remembered scope consents: list, retrieve, withdraw.

Withdrawal revokes the refresh tokens of the application and their access tokens.
"""

from __future__ import annotations

import functools

from identity.call import Call, Document
from identity.errors import NotFound
from identity.events.changes import Change
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.objects import user_lookup
from identity.operations.sessions import session_termination
from identity.services import Services
from identity.store.mongo import Session, Write

_MEMBERS = ("applicationId", "approved", "declined", "insertInstant", "lastUpdateInstant", "tenantId", "userId")


async def retrieve_all(services: Services, call: Call, user_id: str) -> list[Document]:
    """Return the scope consents of a user, the latest decision first. Raises NotFound for an unknown user."""
    user = await _get_user(services, call, user_id)
    consents = await services.tokens.scope_consents.find_of_user(
        TenantId(user["tenantId"]), UserId(user["id"]), call.now
    )
    return [_to_response(one) for one in sorted(consents, key=lambda one: -one["lastUpdateInstant"])]


async def retrieve(services: Services, call: Call, user_id: str, application_id: str) -> Document:
    """Return the scope consent of a user for an application. Raises NotFound."""
    user = await _get_user(services, call, user_id)
    consent = await services.tokens.scope_consents.find_live(
        TenantId(user["tenantId"]), UserId(user["id"]), ApplicationId(application_id), call.now
    )
    if consent is None:
        raise NotFound(log_detail=f"scope consent of {user_id} for {application_id}")
    return _to_response(consent)


async def withdraw(services: Services, call: Call, user_id: str, application_id: str) -> None:
    """Delete the scope consent of a user for an application, and revoke its tokens, atomically. Raises NotFound.

    The event `jwt.refresh-token.revoke` cannot be vetoed here.
    """
    user = await _get_user(services, call, user_id)
    tenant_id, client_id = TenantId(user["tenantId"]), ApplicationId(application_id)
    sign_out = await session_termination.prepare(services, call, user, client_id)
    remove = functools.partial(_remove, services, tenant_id, UserId(user["id"]), client_id)
    writes: list[Write] = [remove, *session_termination.writes(services, call, sign_out)]
    await services.bus.commit(call.within(tenant_id), Change(writes, after_commit=sign_out.events))
    await session_termination.finish(services, call, sign_out)


async def _remove(
    services: Services, tenant_id: TenantId, user_id: UserId, client_id: ApplicationId, session: Session | None
) -> None:
    if not await services.tokens.scope_consents.remove(tenant_id, user_id, client_id, session):
        raise NotFound(log_detail=f"scope consent of {user_id} for {client_id}")


async def _get_user(services: Services, call: Call, user_id: str) -> Document:
    return await services.directory.users.get(await user_lookup.get_tenant_id(services, call, user_id), user_id)


def _to_response(consent: Document) -> Document:
    return {**{name: consent[name] for name in _MEMBERS}, "expirationInstant": consent["expiresAt"]}
