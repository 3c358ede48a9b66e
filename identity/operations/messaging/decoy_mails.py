"""Decoy mails: render a mail for an unknown address, so that response times do not reveal which accounts exist.

Nothing is stored, sent or logged.
"""

from __future__ import annotations

import asyncio

from identity.call import Call, Document
from identity.domain.messaging import mail_templates
from identity.domain.users import users as user_rules
from identity.ids import TenantId, UserId, new_id
from identity.operations.messaging import mail, user_views
from identity.services import Services


async def render(
    services: Services,
    call: Call,
    tenant: Document,
    template_id: str | None,
    email: str,
    data: Document,
    application: Document | None = None,
) -> None:
    """Render the mail that a user with this address would get, and discard it."""
    template = None if template_id is None else await services.outbound.email_templates.find_cached(None, template_id)
    if template is None:
        return
    defaults = services.schemas[user_views.SCHEMA].read({"user": {"username": email}})["user"]
    decoy = user_rules.with_derived_members(
        user_rules.build_user({**defaults, "email": email}, UserId(new_id()), TenantId(tenant["id"]), call.now)
    )
    values = {**await mail.values(services, tenant, application, decoy), **data}
    await asyncio.to_thread(mail_templates.render, template, values, [])
