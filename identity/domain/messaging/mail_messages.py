"""A mail as the bytes that go to a mail server (RFC 5322), and what may stand in its headers."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Sequence

from identity.call import Document
from identity.errors import FieldError
from identity.instants import Instant, as_datetime

_HEADER_NAME = re.compile(r"[!-9;-~]+")
_DOT_ATOM = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")

# They are the mail's own, or say how to read it: an additional header must not contradict them.
_OWN_HEADERS = frozenset(
    {
        "bcc",
        "cc",
        "content-transfer-encoding",
        "content-type",
        "date",
        "from",
        "message-id",
        "mime-version",
        "subject",
        "to",
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """An email address and the name that is shown with it."""

    address: str
    display: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class MailContent:
    """What a mail says, to whom; the `bcc` readers are not named in it."""

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
        """Everybody who gets it, once, as mail servers are told."""
        return tuple(dict.fromkeys(ascii_address(one.address) for one in (self.to, *self.cc, *self.bcc)))


class UndeliverableAddress(ValueError):  # noqa: N818 (named by what it says of an address)
    """An address to which no mail can be sent."""


def ascii_address(address: str) -> str:
    """The address in ASCII, its domain as registered (RFC 5891). Raises Undeliverable.

    A local part beyond ASCII needs an extension (RFC 6531) that most servers on the way do not have.
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
    """A field error when no mail can come from, or go to, the address."""
    try:
        ascii_address(address)
    except UndeliverableAddress as error:
        return [FieldError.of("notEmail", path, f"The [{path}] cannot be used: {error}.")]
    return []


def header_problems(headers: Iterable[Document], path: str) -> list[FieldError]:
    """A field error for each additional header that no mail can carry, or that is the mail's own."""
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


def compose(letter: MailContent, message_id: str, now: Instant) -> bytes:
    """The mail in ASCII with CRLF line ends. Raises Undeliverable.

    Nothing that a template or a name holds can begin a header: every value is made one line first.
    """
    from email.message import EmailMessage  # noqa: PLC0415 (only who sends mail pays for it)
    from email.policy import SMTP  # noqa: PLC0415

    # ASCII alone: who knows whether every server on the way takes eight bits.
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    message["Message-ID"] = message_id
    message["Date"] = as_datetime(now)
    message["From"] = _mailbox(letter.sender)
    message["To"] = _mailbox(letter.to)
    if letter.cc:
        message["Cc"] = [_mailbox(one) for one in letter.cc]
    message["Subject"] = _one_line(letter.subject)
    for name, value in letter.headers:
        if is_additional(name, value) and name not in message:
            message[name] = value
    if letter.text or not letter.html:
        message.set_content(letter.text)
    if letter.html and letter.text:
        message.add_alternative(letter.html, subtype="html")
    elif letter.html:
        message.set_content(letter.html, subtype="html")
    return message.as_bytes()


def _mailbox(one: Address) -> object:
    from email.headerregistry import Address as Mailbox  # noqa: PLC0415

    local, _, domain = ascii_address(one.address).rpartition("@")
    return Mailbox(_one_line(one.display), local, domain)


def _one_line(text: str) -> str:
    """The text without control characters and line ends of any alphabet."""
    plain = "".join(" " if unicodedata.category(letter) in {"Cc", "Zl", "Zp"} else letter for letter in text)
    plain = "".join(letter for letter in plain if unicodedata.category(letter) not in {"Cf", "Cs"})
    return " ".join(plain.split())
