"""One-time codes of second factors: made, sent by email or text message, and compared."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.objects import generated_ids
from identity.domain.two_factor import totp, two_factor
from identity.errors import Invalid
from identity.ids import Secret, TenantId, fingerprint, same_secret
from identity.operations.limits import message_limits
from identity.operations.messaging import mail, text_messages
from identity.operations.messaging.mail import Extras
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class CodeAddress:
    """Where codes of a method go: an email address or a phone number."""

    method: str
    value: str

    @classmethod
    def of(cls, method: Document) -> CodeAddress | None:
        """The address of a user's method; None for one that needs no messages."""
        member = two_factor.ADDRESS_MEMBERS.get(method["method"])
        return None if member is None else cls(method["method"], method[member])


def generate(tenant: Document) -> Secret:
    """A code as the tenant wants them."""
    return generated_ids.new(tenant["externalIdentifierConfiguration"]["twoFactorOneTimeCodeIdGenerator"])


def hash_code(code: str) -> str:
    """What may be stored of a code: codes of letters count in either case."""
    return fingerprint(code.strip().upper())


def matches(stored: str, shown: str) -> bool:
    """Whether a code is the one that was stored."""
    return same_secret(stored, hash_code(shown))


def require_sendable(tenant: Document, application: Document | None, address: CodeAddress | None) -> str:
    """The id of the template by which a code can be sent. Raises Invalid with `[cannotSend]method`."""
    template_id = None if address is None else _template_id(tenant, application, address.method)
    if template_id is None:
        message = "Codes of this method are not sent, or tenant and application name no template for them."
        raise Invalid.field("cannotSend", "method", message)
    return template_id


async def count_message(services: Services, tenant: Document, user_id: str) -> None:
    """Count a message with a code. Raises Unavailable when the tenant allows no more for now."""
    await message_limits.count_message(services, tenant, "sendTwoFactor", user_id)


async def send(
    services: Services,
    call: Call,
    tenant: Document,
    application: Document | None,
    user: Document,
    address: CodeAddress,
    code: str,
) -> None:
    """Send a code. Raises Invalid as `require_sendable` does."""
    template_id = require_sendable(tenant, application, address)
    tenant_id, data = TenantId(tenant["id"]), {"code": code}
    if address.method == two_factor.EMAIL:
        extras = Extras(address=address.value)
        await mail.send(services, call, tenant_id, template_id, user, data, application=application, extras=extras)
        return
    messenger_id = tenant["multiFactorConfiguration"][address.method]["messengerId"]
    await text_messages.send_sms(
        services,
        call,
        tenant_id,
        messenger_id,
        template_id,
        user,
        data,
        application=application,
        phone_number=address.value,
    )


def matching_step(method: Document, shown: str, call: Call) -> int | None:
    """The time step of the code that an authenticator app shows now, or showed a moment ago."""
    if method["method"] != two_factor.AUTHENTICATOR or not method.get("secret"):
        return None
    return totp.matching_step(method["secret"], method.get("authenticator", {}), shown.strip(), call.now)


class AuthenticatorCodeUse:
    """The one use of an authenticator's code, for a write that may run again (RFC 6238 section 5.2)."""

    def __init__(self, services: Services, user: Document, secret: str, settings: Document, step: int) -> None:
        self._services = services
        self._named = (TenantId(user["tenantId"]), "totp", f"{user['id']} {fingerprint(secret)}", str(step))
        self._seconds = totp.lifetime_seconds(settings) * 2
        self._is_ours = False

    async def is_used(self) -> bool:
        """Whether the code was used before, which spares webhooks a login that comes to nothing."""
        return await self._services.one_time_ids.is_used(*self._named)

    async def consume(self) -> bool:
        """Whether the code was not used before this write; of all writes one gets it."""
        if not self._is_ours:
            self._is_ours = await self._services.one_time_ids.mark_used(*self._named, self._seconds)
        return self._is_ours


def _template_id(tenant: Document, application: Document | None, method: str) -> str | None:
    own = {} if application is None else application["multiFactorConfiguration"][method]
    settings = tenant["multiFactorConfiguration"][method]
    if method == two_factor.SMS and settings.get("messengerId") is None:
        return None
    found: str | None = own.get("templateId") or settings.get("templateId")
    return found
