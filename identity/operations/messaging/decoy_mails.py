"""Mails for nobody: where anonymous callers ask for a mail, an address that nobody has costs what a user's costs.

Otherwise the time of the answer would tell who has an account. Nothing is kept, sent or logged.
"""

from __future__ import annotations

import asyncio

from identity.call import Call, Document
from identity.domain.messaging import mail_templates
from identity.domain.users import users as rules
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
    """Make the mail that a user with this address would get, and throw it away."""
    template = None if template_id is None else await services.email_templates.find_cached(None, template_id)
    if template is None:
        return
    wanted = services.schemas[user_views.SCHEMA].read({"user": {"username": email}})["user"]
    nobody = rules.with_derived_members(
        rules.build_user({**wanted, "email": email}, UserId(new_id()), TenantId(tenant["id"]), call.now)
    )
    known = {**await mail.values(services, tenant, application, nobody), **data}
    await asyncio.to_thread(mail_templates.render, template, known, [])
