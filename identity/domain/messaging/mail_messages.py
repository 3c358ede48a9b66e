"""The format of mails (RFC 5322): addresses, headers and body."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from identity.call import Document
from identity.errors import FieldError
from identity.instants import Instant, as_datetime

_HEADER_NAME = re.compile(r"[!-9;-~]+")
_DOT_ATOM = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")

# Set by the service; additional headers must not contradict them.
_OWN_HEADERS = frozenset({
    "bcc", "cc", "content-transfer-encoding", "content-type", "date", "from", "message-id", "mime-version",
    "subject", "to",
})  # fmt: skip


_UNSET_SERVER: Final = {"host": "localhost", "port": 25, "defaultFromEmail": "change-me@example.com"}
"""The defaults of an emailConfiguration: no mail server was configured yet."""


def has_mail_server(tenant: Document) -> bool:
    """Whether the mail server or the sender of a tenant was configured; until then no mail is sent."""
    configuration = tenant["emailConfiguration"]
    return any(configuration.get(name, default) != default for name, default in _UNSET_SERVER.items())


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """An email address and its display name."""

    address: str
    display: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class MailContent:
    """Content and recipients of a mail; `bcc` recipients do not appear in its headers."""

    sender: Address
    to: Address
    subject: str
    text: str = ""
    html: str = ""
    cc: Sequence[Address] = ()
    bcc: Sequence[Address] = ()
    headers: Sequence[tuple[str, str]] = ()

    @property
    def recipients(self) -> tuple[str, ...]:
        """The envelope recipients, without duplicates."""
        return tuple(dict.fromkeys(ascii_address(one.address) for one in (self.to, *self.cc, *self.bcc)))


class UndeliverableAddress(ValueError):  # noqa: N818 (describes the address)
    """No mail can be sent to the address."""


def ascii_address(address: str) -> str:
    """The address in ASCII, with its domain in IDNA form (RFC 5891). Raises UndeliverableAddress.

    Non-ASCII local parts (RFC 6531) are not supported, because few mail servers accept them.
    """
    local, _, domain = address.strip().rpartition("@")
    try:
        domain = domain.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise UndeliverableAddress(f"[{address[:200]}] has no valid domain") from error
    if not _DOT_ATOM.fullmatch(local) or len(local) > 64 or not _DOMAIN.fullmatch(domain):
        raise UndeliverableAddress(f"[{address[:200]}] is no address that mail can be sent to")
    return f"{local}@{domain}"


def address_problems(address: str, path: str) -> list[FieldError]:
    """A field error if mail cannot be sent from, or to, the address."""
    try:
        ascii_address(address)
    except UndeliverableAddress as error:
        return [FieldError.invalid(path, f"cannot be used: {error}", "notEmail")]
    return []


def header_problems(headers: Iterable[Document], path: str) -> list[FieldError]:
    """A field error for each additional header that is invalid, or set by the service."""
    errors = []
    for index, header in enumerate(headers):
        if not is_additional(header["name"], header["value"]):
            field = f"{path}[{index}]"
            message = f"The [{field}] is no header that can be added: a name without spaces, a value on one line."
            errors.append(FieldError.of("invalid", field, message))
    return errors


def is_additional(name: str, value: str) -> bool:
    """Whether a header may be added to mails."""
    return bool(_HEADER_NAME.fullmatch(name)) and name.lower() not in _OWN_HEADERS and _one_line(value) == value


def compose(content: MailContent, message_id: str, now: Instant) -> bytes:
    """The mail in ASCII with CRLF line ends. Raises Undeliverable.

    Templates and names cannot inject headers: every header value is reduced to one line first.
    """
    from email.message import EmailMessage  # noqa: PLC0415 (imported only to send mail)
    from email.policy import SMTP  # noqa: PLC0415

    # 7-bit only: not every mail server supports 8BITMIME.
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    message["Message-ID"] = message_id
    message["Date"] = as_datetime(now)
    message["From"] = _mailbox(content.sender)
    message["To"] = _mailbox(content.to)
    if content.cc:
        message["Cc"] = [_mailbox(one) for one in content.cc]
    message["Subject"] = _one_line(content.subject)
    for name, value in content.headers:
        if is_additional(name, value) and name not in message:
            message[name] = value
    if content.text or not content.html:
        message.set_content(content.text)
    if content.html and content.text:
        message.add_alternative(content.html, subtype="html")
    elif content.html:
        message.set_content(content.html, subtype="html")
    return message.as_bytes()


def _mailbox(one: Address) -> object:
    from email.headerregistry import Address as Mailbox  # noqa: PLC0415

    local, _, domain = ascii_address(one.address).rpartition("@")
    return Mailbox(_one_line(one.display), local, domain)


def _one_line(text: str) -> str:
    """The text in one line, without control and format characters."""
    plain = "".join(" " if unicodedata.category(letter) in {"Cc", "Zl", "Zp"} else letter for letter in text)
    plain = "".join(letter for letter in plain if unicodedata.category(letter) not in {"Cf", "Cs"})
    return " ".join(plain.split())
