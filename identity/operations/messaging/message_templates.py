"""Message templates: validation beyond the schema, and previews."""

from __future__ import annotations

import asyncio

from identity.call import Call, Document
from identity.domain.messaging import mail_templates, message_templates
from identity.domain.messaging.template_budget import ParseError, RenderError
from identity.domain.objects.resource_definition import CREATE_TO_SEARCH, Resource, Unique
from identity.errors import FieldError
from identity.operations.messaging import email_templates
from identity.operations.objects import crud
from identity.services import Services


async def prepare(_services: Services, _call: Call, document: Document, _stored: Document | None) -> Document:
    """Validate the text in every language. Raises Invalid; the messages name the lines."""
    crud.require_no_errors(await asyncio.to_thread(message_templates.problems, document))
    return document


RESOURCE = Resource(
    "messageTemplate",
    path="/api/message/template",
    label="Message template",
    tenant_scoped=False,
    verbs=CREATE_TO_SEARCH - {"search"},
    unique=(Unique("name", ("name",), "messageTemplate.name"),),
    prepare=prepare,
)


async def preview(services: Services, call: Call, request: Document) -> Document:
    """Render `message` for an example user, and its text as `previewMessage`; `errors` if it cannot be rendered."""
    template = request["messageTemplate"]
    locales = [request["locale"]] if "locale" in request else []
    tenant = await services.configuration.tenants.find_cached(
        None, call.tenant_id or services.runtime.default_tenant_id
    )
    values = email_templates.example(tenant, call.now)
    message: Document = {"phoneNumber": values["user"]["mobilePhone"]}
    try:
        message["textMessage"] = await asyncio.to_thread(
            message_templates.render, template, values, locales, preview=True
        )
    except (ParseError, RenderError) as error:
        path = f"messageTemplate.{mail_templates.variant(template, message_templates.TEXT, locales)[0]}"
        field = FieldError.of("invalid", path, error.message)
        return {"message": message, "errors": {"fieldErrors": {path: [{"code": field.code, "message": field.message}]}}}
    return {"message": message, "previewMessage": message["textMessage"]}
