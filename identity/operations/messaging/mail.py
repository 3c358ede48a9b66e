"""Mail by template: rendered for its recipient and stored in the queue before the caller is answered."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from identity.call import Call, Document
from identity.domain.configuration import administrator_realm as realm_rules
from identity.domain.messaging import builtin_mails, mail_messages, mail_templates, template_language
from identity.domain.messaging.builtin_mails import BuiltinMail
from identity.domain.messaging.mail_messages import Address, MailContent, UndeliverableAddress
from identity.domain.users import users as user_rules
from identity.errors import FieldError, Invalid
from identity.ids import TenantId, new_id
from identity.operations.groups import administrator_realm
from identity.operations.messaging import email_templates, user_views
from identity.operations.objects import application_lookup, crud, event_logs
from identity.outbound.mail import properties
from identity.services import Services
from identity.store.work_queues import Mail


@dataclasses.dataclass(frozen=True, slots=True)
class MailOptions:
    """Locales and address, if they are not those of the user, and further recipients."""

    locales: Sequence[str] = ()
    cc: Sequence[str] = ()
    bcc: Sequence[str] = ()
    address: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RenderedMail:
    """A mail that is not queued yet: its content, and the job to store."""

    content: MailContent
    mail: Mail


_NO_OPTIONS = MailOptions()
_NO_MAIL_SERVER = "The tenant has no mail server: set the host and the defaultFromEmail of its emailConfiguration."
_CONCURRENT_MAILS = 16
"""Mails of one request that are rendered and stored concurrently."""


async def send(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    template_id: str | BuiltinMail,
    to: Document | Address,
    data: Document,
    *,
    application: Document | None = None,
    options: MailOptions = _NO_OPTIONS,
) -> Document:
    """Queue a mail to a user (a stored document) or an address; return `parseErrors` and `renderErrors`, if any.

    The template can use `user`, `tenant` and `application` in the form of the API, and the members of `data`. Without
    errors the mail is stored; a worker sends and retries it. Errors are also written to the event log.
    """
    rendered = await render(services, call, tenant_id, template_id, to, data, application=application, options=options)
    if not isinstance(rendered, RenderedMail):
        return rendered
    await services.outbound.mails.add([rendered.mail], call.now)
    return {}


async def render(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    template_id: str | BuiltinMail,
    to: Document | Address,
    data: Document,
    *,
    application: Document | None = None,
    options: MailOptions = _NO_OPTIONS,
) -> RenderedMail | Document:
    """As `send`, without storing the mail: for mails that are stored in the transaction of a change.

    A built-in mail needs no stored template. An administrator receives only those, by the console's mail server.
    """
    tenant = await services.configuration.tenants.get(None, tenant_id)
    if isinstance(to, dict):
        tenant = await administrator_realm.of_user(services, tenant, to)
    locales = options.locales or (to.get("preferredLanguages", []) if isinstance(to, dict) else [])
    template, template_name = await _find_template(services, template_id, locales)
    if template is None:
        return await _log_errors(
            services, call, template_name, {"parseErrors": {"template": "There is no such template."}}
        )
    if realm_rules.is_realm(tenant) and not isinstance(template_id, BuiltinMail):
        message = "The user is an administrator, who receives built-in mails only."
        return await _log_errors(services, call, template_name, {"renderErrors": {"template": message}})
    if not mail_messages.has_mail_server(tenant):
        message = administrator_realm.NO_MAIL_SERVER if realm_rules.is_realm(tenant) else _NO_MAIL_SERVER
        return await _log_errors(services, call, template_name, {"renderErrors": {"host": message}})
    template_values = {**await values(services, tenant, application, to), **data}
    rendered = await asyncio.to_thread(mail_templates.render, template, template_values, locales)
    if rendered.errors:
        return await _log_errors(services, call, template_name, rendered.errors)
    recipient = _recipient(to, options)
    if recipient is None:
        return await _log_errors(
            services, call, template_name, {"renderErrors": {"to": "The user has no email address."}}
        )
    content = _content(tenant, template, rendered, recipient, options)
    try:
        return RenderedMail(content, await asyncio.to_thread(_mail, tenant, content, call))
    except UndeliverableAddress as error:
        return await _log_errors(services, call, template_name, {"renderErrors": {"to": str(error)}})


async def send_all(services: Services, call: Call, request: Document, template_id: str) -> Document:
    """Queue a mail to each user and address of a request; return the errors by user id or address.

    Raises NotFound for an unknown template and Invalid for unknown users or applications, with nothing sent.
    """
    await crud.retrieve(services, call, email_templates.RESOURCE, template_id)
    application = await application_lookup.get_named(services, call, request.get("applicationId"))
    tenant_id = await _tenant_of(services, call, application, request["userIds"])
    users = await _users(services, tenant_id, request["userIds"])
    addresses = [Address(to["address"], to.get("display", "")) for to in request["toAddresses"]]
    if not users and not addresses:
        raise Invalid.field("empty", "userIds", "You must specify the [userIds] or the [toAddresses] property.")
    data = {"requestData": request["requestData"]}
    options = MailOptions(cc=request["ccAddresses"], bcc=request["bccAddresses"])
    anonymous_options = dataclasses.replace(options, locales=request["preferredLanguages"])
    send_one = functools.partial(send, services, call, tenant_id, template_id, data=data, application=application)
    mails: list[tuple[Document | Address, Coroutine[Any, Any, Document]]] = [
        *((user, send_one(user, options=options)) for user in users),
        *((address, send_one(address, options=anonymous_options)) for address in addresses),
    ]
    limit = asyncio.Semaphore(_CONCURRENT_MAILS)
    all_errors = await asyncio.gather(*(_within_limit(limit, mail) for _, mail in mails))
    results: Document = {}
    for (to, _), errors in zip(mails, all_errors, strict=True):
        if errors and isinstance(to, Address):
            results.setdefault("anonymousResults", {})[to.address] = errors
        elif errors and isinstance(to, dict):
            results.setdefault("results", {})[to["id"]] = errors
    return results


async def _within_limit(limit: asyncio.Semaphore, mail: Coroutine[Any, Any, Document]) -> Document:
    async with limit:
        return await mail


async def _find_template(
    services: Services, template_id: str | BuiltinMail, locales: Sequence[str]
) -> tuple[Document | None, str]:
    """Return the template, and its id or name for the event log."""
    if isinstance(template_id, str):
        return await services.outbound.email_templates.find_cached(None, template_id), template_id
    template = builtin_mails.template(template_id, locales)
    return template, template["name"]


async def _tenant_of(services: Services, call: Call, application: Document | None, user_ids: Iterable[str]) -> TenantId:
    """The sending tenant: of the call, else the application, else the first user. Raises Invalid."""
    if call.tenant_id is not None:
        return call.tenant_id
    if application is not None:
        return TenantId(application["tenantId"])
    for user_id in user_ids:
        user = await services.directory.users.find_cached_across_tenants(user_id)
        if user is not None:
            return TenantId(user["tenantId"])
    return crud.require_tenant(call)


async def _users(services: Services, tenant_id: TenantId, user_ids: Sequence[str]) -> list[Document]:
    """The users of a request. Raises Invalid with an error for each unknown one."""
    found, errors = [], []
    for index, user_id in enumerate(user_ids):
        user = await services.directory.users.find_cached(tenant_id, user_id)
        if user is None:
            errors.append(FieldError.of("invalid", f"userIds[{index}]", f"The [userIds[{index}]] must name a user."))
        else:
            found.append(user)
    crud.require_no_errors(errors)
    return found


async def values(
    services: Services, tenant: Document, application: Document | None, to: Document | Address | str
) -> dict[str, Any]:
    """The values of a template: members that the API returns, without client secrets."""
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


def _recipient(to: Document | Address, options: MailOptions) -> Address | None:
    if isinstance(to, Address):
        return to
    address = options.address or user_rules.email_address(to)
    return None if address is None else Address(address, to.get("fullName", ""))


def _content(
    tenant: Document, template: Document, rendered: mail_templates.Rendered, recipient: Address, options: MailOptions
) -> MailContent:
    configuration = tenant["emailConfiguration"]
    name = rendered.parts.get("fromName") or configuration.get("defaultFromName", "")
    return MailContent(
        Address(template.get("fromEmail") or configuration["defaultFromEmail"], name),
        recipient,
        rendered.parts.get("subject", ""),
        rendered.parts.get("text", ""),
        rendered.parts.get("html", ""),
        [Address(address) for address in options.cc],
        [Address(address) for address in options.bcc],
        [(header["name"], header["value"]) for header in configuration["additionalHeaders"]],
    )


def _mail(tenant: Document, content: MailContent, call: Call) -> Mail:
    """The message to send. Raises UndeliverableAddress.

    Bounces go to `mail.smtp.from` of the tenant's properties, or to the sender.
    """
    mail_id = new_id()
    sender = mail_messages.ascii_address(content.sender.address)
    bounces = properties(tenant["emailConfiguration"]).get("mail.smtp.from", "") or sender
    message_id = f"<{mail_id}@{sender.rpartition('@')[2]}>"
    message = mail_messages.compose(content, message_id, call.now)
    bounces, is_console = mail_messages.ascii_address(bounces), realm_rules.is_realm(tenant)
    return Mail(mail_id, TenantId(tenant["id"]), bounces, content.recipients, message, is_console)


async def _log_errors(services: Services, call: Call, template_id: str, errors: Document) -> Document:
    """Write errors to the event log, and return them."""
    lines = [f"  {part}: {message}" for found in errors.values() for part, message in found.items()]
    text = f"A mail by the email template [{template_id}] could not be sent.\n" + "\n".join(lines)
    await event_logs.record(services, call, "Error", text)
    return errors
