"""Two-factor codes: generate, send and compare them."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.configuration import administrator_realm
from identity.domain.messaging.builtin_mails import BuiltinMail
from identity.domain.objects import external_identifiers
from identity.domain.two_factor import totp, two_factor
from identity.errors import Invalid
from identity.ids import Secret, TenantId, fingerprint, same_secret
from identity.operations.limits import message_limits
from identity.operations.messaging import mail, text_messages
from identity.operations.messaging.mail import MailOptions
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class CodeAddress:
    """The address to which the codes of a method are sent: an email address or a phone number."""

    method: str
    value: str

    @classmethod
    def of(cls, method: Document) -> CodeAddress | None:
        """Return the address of a user's method; None for a method without messages."""
        member = two_factor.ADDRESS_MEMBERS.get(method["method"])
        return None if member is None else cls(method["method"], method[member])


def generate(tenant: Document) -> Secret:
    """Generate a code of the form that the tenant configures."""
    return external_identifiers.generate_id(
        tenant["externalIdentifierConfiguration"]["twoFactorOneTimeCodeIdGenerator"]
    )


def hash_code(code: str) -> str:
    """Return the hash of a code, which is what is stored. Codes are case-insensitive."""
    return fingerprint(code.strip().upper())


def matches(code_hash: str, code: str) -> bool:
    """Whether a code has this hash."""
    return same_secret(code_hash, hash_code(code))


def require_sendable(tenant: Document, application: Document | None, address: CodeAddress | None) -> str | BuiltinMail:
    """Return the message template for a code. Raises Invalid with `[cannotSend]method` if there is none."""
    template_id = None if address is None else _template_id(tenant, application, address.method)
    if template_id is None:
        message = "Codes of this method are not sent, or tenant and application name no template for them."
        raise Invalid.field("cannotSend", "method", message)
    return template_id


async def count_message(services: Services, tenant: Document, user_id: str) -> None:
    """Count a message with a code. Raises Unavailable when the tenant's limit is exceeded."""
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
    tenant_id, data = TenantId(tenant["id"]), {"code": code, "oneTimeCode": code}
    if address.method == two_factor.EMAIL:
        options = MailOptions(address=address.value)
        await mail.send(services, call, tenant_id, template_id, user, data, application=application, options=options)
        return
    assert isinstance(template_id, str), "text messages have no built-in template"
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


def matching_step(method: Document, code: str, call: Call) -> int | None:
    """Return the current or adjacent time step whose authenticator code this is, or None."""
    if method["method"] != two_factor.AUTHENTICATOR or not method.get("secret"):
        return None
    return totp.matching_step(method["secret"], method.get("authenticator", {}), code.strip(), call.now)


class AuthenticatorCodeUse:
    """The single use of an authenticator code, for a write that may run again (RFC 6238 section 5.2)."""

    def __init__(self, services: Services, user: Document, secret: str, settings: Document, step: int) -> None:
        self._services = services
        self._key = (TenantId(user["tenantId"]), "totp", f"{user['id']} {fingerprint(secret)}", str(step))
        self._seconds = totp.lifetime_seconds(settings) * 2
        self._is_consumed = False

    async def is_used(self) -> bool:
        """Whether the code was used before; checked early, so that webhooks receive no login that would fail."""
        return await self._services.tokens.one_time_ids.is_used(*self._key)

    async def consume(self) -> bool:
        """Consume the code; True for one caller only, also when its write runs again."""
        if not self._is_consumed:
            self._is_consumed = await self._services.tokens.one_time_ids.mark_used(*self._key, self._seconds)
        return self._is_consumed


def _template_id(tenant: Document, application: Document | None, method: str) -> str | BuiltinMail | None:
    if administrator_realm.is_realm(tenant):
        sends = method == two_factor.EMAIL and administrator_realm.sends_mail(tenant)
        return BuiltinMail("loginCode") if sends else None
    own = {} if application is None else application["multiFactorConfiguration"][method]
    settings = tenant["multiFactorConfiguration"][method]
    if method == two_factor.SMS and settings.get("messengerId") is None:
        return None
    found: str | None = own.get("templateId") or settings.get("templateId")
    return found
