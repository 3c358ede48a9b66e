"""Mail by template: rendered for its reader, and taken for good before anybody is told that it was."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from identity.call import Call, Document
from identity.domain.messaging import mail_messages, mail_templates, template_language
from identity.domain.messaging.mail_messages import Address, MailContent, UndeliverableAddress
from identity.domain.users import users as user_rules
from identity.errors import FieldError, Invalid
from identity.ids import MailId, TenantId, new_id
from identity.operations.messaging import email_templates, user_views
from identity.operations.objects import crud, event_logs
from identity.outbound.mail import properties
from identity.services import Services
from identity.store.mails import Mail


@dataclasses.dataclass(frozen=True, slots=True)
class Extras:
    """The reader's languages and address, where they are not a user's own, and who else gets a mail."""

    locales: Sequence[str] = ()
    cc: Sequence[str] = ()
    bcc: Sequence[str] = ()
    address: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """A mail that was made and not yet taken: what it says, and the job to store."""

    letter: MailContent
    mail: Mail


_NOTHING_EXTRA = Extras()
_AT_A_TIME = 16
"""Mails of one request that are rendered and stored at the same time."""


async def send(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    template_id: str | Document,
    to: Document | Address,
    data: Document,
    *,
    application: Document | None = None,
    extras: Extras = _NOTHING_EXTRA,
) -> Document:
    """Take a mail for a user (a stored document) or an address; answers `parseErrors` and `renderErrors`, or nothing.

    The template reads `user`, `tenant` and `application` as the API shows them, and the members of `data`. When the
    answer is empty the mail is stored, and sent by a worker, again and again if need be. What cannot be sent is told
    in the event log too: most callers have nobody to tell.
    """
    made = await draft(services, call, tenant_id, template_id, to, data, application=application, extras=extras)
    if not isinstance(made, Draft):
        return made
    await services.mails.add([made.mail], call.now)
    return {}


async def draft(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    template_id: str | Document,
    to: Document | Address,
    data: Document,
    *,
    application: Document | None = None,
    extras: Extras = _NOTHING_EXTRA,
) -> Draft | Document:
    """As `send`, but for taking it: for a mail that is stored together with something else. Answers errors likewise.

    A document in place of the template's id is a built-in template.
    """
    template, template_id = await _template(services, template_id)
    if template is None:
        return await _refused(services, call, template_id, {"parseErrors": {"template": "There is no such template."}})
    tenant = await services.tenants.get(None, tenant_id)
    known = {**await values(services, tenant, application, to), **data}
    languages = extras.locales or (to.get("preferredLanguages", []) if isinstance(to, dict) else [])
    rendered = await asyncio.to_thread(mail_templates.render, template, known, languages)
    if rendered.errors:
        return await _refused(services, call, template_id, rendered.errors)
    reader = _reader(to, extras)
    if reader is None:
        return await _refused(services, call, template_id, {"renderErrors": {"to": "The user has no email address."}})
    letter = _letter(tenant, template, rendered, reader, extras)
    try:
        return Draft(letter, await asyncio.to_thread(_mail, tenant, letter, call))
    except UndeliverableAddress as error:
        return await _refused(services, call, template_id, {"renderErrors": {"to": str(error)}})


async def send_all(services: Services, call: Call, template_id: str, request: Document) -> Document:
    """Take a mail for each user and address of a request; answers the errors of those who get none.

    Raises NotFound for a template that does not exist, Invalid for users and applications that do not, with nothing
    sent.
    """
    await crud.retrieve(services, call, email_templates.RESOURCE, template_id)
    application = await _application(services, call, request.get("applicationId"))
    tenant_id = await _tenant_of(services, call, application, request["userIds"])
    readers = await _users(services, tenant_id, request["userIds"])
    addresses = [Address(one["address"], one.get("display", "")) for one in request["toAddresses"]]
    if not readers and not addresses:
        raise Invalid.field("empty", "userIds", "You must specify the [userIds] or the [toAddresses] property.")
    data = {"requestData": request["requestData"]}
    extras = Extras(cc=request["ccAddresses"], bcc=request["bccAddresses"])
    anonymous = dataclasses.replace(extras, locales=request["preferredLanguages"])
    geoip = asyncio.Semaphore(_AT_A_TIME)

    async def one(to: Document | Address) -> tuple[Document | Address, Document]:
        more = anonymous if isinstance(to, Address) else extras
        async with geoip:
            return to, await send(
                services, call, tenant_id, template_id, to, data, application=application, extras=more
            )

    results: Document = {}
    everybody: list[Document | Address] = [*readers, *addresses]
    for to, errors in await asyncio.gather(*map(one, everybody)):
        if errors and isinstance(to, Address):
            results.setdefault("anonymousResults", {})[to.address] = errors
        elif errors and isinstance(to, dict):
            results.setdefault("results", {})[to["id"]] = errors
    return results


async def _template(services: Services, template_id: str | Document) -> tuple[Document | None, str]:
    """A template and its name in the event log."""
    if isinstance(template_id, str):
        return await services.email_templates.find_cached(None, template_id), template_id
    return template_id, template_id["name"]


async def _application(services: Services, call: Call, application_id: str | None) -> Document | None:
    if application_id is None:
        return None
    found = await services.applications.find_cached_across_tenants(application_id)
    if found is None or call.tenant_id not in {None, found["tenantId"]}:
        raise Invalid.field("invalid", "applicationId", "The [applicationId] must name an existing application.")
    return found


async def _tenant_of(services: Services, call: Call, application: Document | None, user_ids: Iterable[str]) -> TenantId:
    """The tenant that sends: the call's, else the application's, else that of the first user. Raises Invalid."""
    if call.tenant_id is not None:
        return call.tenant_id
    if application is not None:
        return TenantId(application["tenantId"])
    for user_id in user_ids:
        user = await services.users.find_cached_across_tenants(user_id)
        if user is not None:
            return TenantId(user["tenantId"])
    return crud.require_tenant(call)


async def _users(services: Services, tenant_id: TenantId, user_ids: Sequence[str]) -> list[Document]:
    """The users of a request. Raises Invalid for each that the tenant does not have."""
    found, errors = [], []
    for index, user_id in enumerate(user_ids):
        user = await services.users.find_cached(tenant_id, user_id)
        if user is None:
            errors.append(FieldError.of("invalid", f"userIds[{index}]", f"The [userIds[{index}]] must name a user."))
        else:
            found.append(user)
    crud.require_no_errors(errors)
    return found


async def values(
    services: Services, tenant: Document, application: Document | None, to: Document | Address | str
) -> dict[str, Any]:
    """What a template reads: nothing that the API does not show, and no secret of a client."""
    found: dict[str, Any] = {
        "tenant": crud.to_schema_response(services, "api/tenant.json", "tenant", tenant),
        template_language.NOW: services.clock.now(),
    }
    if application is not None:
        shown = crud.to_schema_response(services, "api/application.json", "application", application)
        shown["oauthConfiguration"] = {
            name: value for name, value in shown["oauthConfiguration"].items() if name != "clientSecret"
        }
        found["application"] = shown
    if isinstance(to, dict):
        found["user"] = await user_views.to_response(services, to) | {"tenantId": tenant["id"]}
    return found


def _reader(to: Document | Address, extras: Extras) -> Address | None:
    if isinstance(to, Address):
        return to
    address = extras.address or user_rules.email_address(to)
    return None if address is None else Address(address, to.get("fullName", ""))


def _letter(
    tenant: Document, template: Document, rendered: mail_templates.Rendered, reader: Address, extras: Extras
) -> MailContent:
    configuration = tenant["emailConfiguration"]
    name = rendered.parts.get("fromName") or configuration.get("defaultFromName", "")
    return MailContent(
        Address(template.get("fromEmail") or configuration["defaultFromEmail"], name),
        reader,
        rendered.parts.get("subject", ""),
        rendered.parts.get("text", ""),
        rendered.parts.get("html", ""),
        [Address(address) for address in extras.cc],
        [Address(address) for address in extras.bcc],
        [(header["name"], header["value"]) for header in configuration["additionalHeaders"]],
    )


def _mail(tenant: Document, letter: MailContent, call: Call) -> Mail:
    """The mail as it goes out. Raises Undeliverable.

    Bounces go to the sender, or to the `mail.smtp.from` of the tenant's properties.
    """
    mail_id = new_id()
    sender = mail_messages.ascii_address(letter.sender.address)
    bounces = properties(tenant["emailConfiguration"]).get("mail.smtp.from", "") or sender
    message_id = f"<{mail_id}@{sender.rpartition('@')[2]}>"
    message = mail_messages.compose(letter, message_id, call.now)
    return Mail(
        MailId(mail_id), TenantId(tenant["id"]), mail_messages.ascii_address(bounces), letter.recipients, message
    )


async def _refused(services: Services, call: Call, template_id: str, errors: Document) -> Document:
    """The errors, after the event log has heard of them."""
    lines = [f"  {part}: {message}" for found in errors.values() for part, message in found.items()]
    text = f"A mail by the email template [{template_id}] could not be made.\n" + "\n".join(lines)
    await event_logs.record(services, call, "Error", text)
    return errors
