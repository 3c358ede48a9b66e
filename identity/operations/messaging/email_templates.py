"""Email templates: validation beyond the schema, and previews."""

from __future__ import annotations

import asyncio
from typing import Any

from identity.call import Call, Document
from identity.domain.messaging import mail_templates, template_language
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import FieldError
from identity.ids import new_id
from identity.instants import Instant
from identity.operations.objects import crud
from identity.services import Services


async def prepare(_services: Services, _call: Call, document: Document, _stored: Document | None) -> Document:
    """Validate every part in every language. Raises Invalid; the messages name the lines."""
    crud.require_no_errors(await asyncio.to_thread(mail_templates.problems, document))
    return document


RESOURCE = Resource(
    "emailTemplate",
    path="/api/email/template",
    label="Email template",
    tenant_scoped=False,
    unique=(Unique("name", ("name",), "emailTemplate.name"),),
    search_rules=SearchRules({"name": "text"}, {"id": "_id", "insertInstant": "insertInstant", "name": "name"}),
    prepare=prepare,
)


async def preview(services: Services, call: Call, request: Document) -> Document:
    """Render `email` for an example user, with `errors` for the parts that cannot be rendered.

    Values known only when a mail is sent, such as the id of a link, appear as their names: `${changePasswordId}`.
    """
    template = request["emailTemplate"]
    locales = [request["locale"]] if "locale" in request else []
    values = example(
        await services.configuration.tenants.find_cached(None, call.tenant_id or services.runtime.default_tenant_id),
        call.now,
    )
    rendered = await asyncio.to_thread(mail_templates.render, template, values, locales, preview=True)
    email: Document = {name: rendered.parts[name] for name in ("subject", "html", "text") if name in rendered.parts}
    sender = {"address": template.get("fromEmail"), "display": rendered.parts.get("fromName")}
    if any(sender.values()):
        email["from"] = {name: value for name, value in sender.items() if value}
    answer: Document = {"email": email}
    if rendered.errors:
        answer["errors"] = {"fieldErrors": _field_errors(template, locales, rendered)}
    return answer


def _field_errors(template: Document, locales: list[str], rendered: mail_templates.Rendered) -> Document:
    errors: Document = {}
    for part in mail_templates.PARTS:
        message = rendered.parse_errors.get(part.name) or rendered.render_errors.get(part.name)
        if message is not None:
            path = f"emailTemplate.{mail_templates.variant(template, part, locales)[0]}"
            error = FieldError.of("invalid", path, message)
            errors[path] = [{"code": error.code, "message": error.message}]
    return errors


def example(tenant: Document | None, now: Instant) -> dict[str, Any]:
    """The values of a preview: a user with the members that templates commonly use."""
    tenant_id = (tenant or {}).get("id", new_id())
    user = {
        "active": True,
        "birthDate": "1815-12-10",
        "email": "ada.lovelace@example.com",
        "firstName": "Ada",
        "fullName": "Ada Lovelace",
        "id": new_id(),
        "lastName": "Lovelace",
        "mobilePhone": "+44 20 7946 0000",
        "preferredLanguages": ["en"],
        "tenantId": tenant_id,
        "username": "ada",
        "verified": True,
    }
    application = {"id": new_id(), "name": "Example application", "tenantId": tenant_id}
    return {
        template_language.NOW: now,
        "application": application,
        "tenant": {"id": tenant_id, "name": (tenant or {}).get("name", "Example tenant")},
        "user": user,
    }
