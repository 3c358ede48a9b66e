"""Rules of messenger types: Generic receives JSON at a URL, Twilio sends text messages by its Messages API."""

from __future__ import annotations

import re
import urllib.parse
from typing import Final

from identity.call import Document
from identity.errors import FieldError

TWILIO: Final = "Twilio"

_TWILIO_MEMBERS: Final = ("accountSID", "authToken", "fromPhoneNumber", "messagingServiceSid")
_GENERIC_MEMBERS: Final = (
    *("connectTimeout", "headers", "httpAuthenticationPassword", "httpAuthenticationUsername", "readTimeout"),
    *("sslCertificate", "sslCertificateId"),
)
_TWILIO_VERSION: Final = "/2010-04-01"


def complete(messenger: Document) -> Document:
    """Return the messenger without members of the other type."""
    if messenger.get("type") == TWILIO:
        return {name: value for name, value in messenger.items() if name not in _GENERIC_MEMBERS}
    return {"headers": {}} | {name: value for name, value in messenger.items() if name not in _TWILIO_MEMBERS}


def problems(messenger: Document) -> list[FieldError]:
    """Return the errors of members that a type requires."""
    if messenger.get("type") == TWILIO:
        return _twilio_problems(messenger)
    return [
        FieldError.missing(f"messenger.{name}") for name in ("connectTimeout", "readTimeout") if name not in messenger
    ]


def twilio_url(messenger: Document) -> str:
    """Return the URL of the Messages resource; the version of the API is added unless the URL has it."""
    base = messenger["url"].rstrip("/").removesuffix(_TWILIO_VERSION)
    return f"{base}{_TWILIO_VERSION}/Accounts/{messenger['accountSID']}/Messages.json"


def twilio_form(messenger: Document, phone_number: str, text: str) -> bytes:
    """Return the form that creates a message; a messaging service takes precedence over a number."""
    service = messenger.get("messagingServiceSid")
    sender = {"MessagingServiceSid": service} if service else {"From": messenger["fromPhoneNumber"]}
    return urllib.parse.urlencode({"To": phone_number, **sender, "Body": text}).encode()


def _twilio_problems(messenger: Document) -> list[FieldError]:
    errors = []
    account = messenger.get("accountSID")
    if account is None:
        errors.append(FieldError.missing("messenger.accountSID", "blank"))
    elif not re.fullmatch(r"[A-Za-z0-9]+", account):
        path = "messenger.accountSID"
        errors.append(FieldError.invalid(path, "may have letters and digits only"))
    if "fromPhoneNumber" not in messenger and "messagingServiceSid" not in messenger:
        errors.append(FieldError.missing("messenger.fromPhoneNumber", "blank"))
    return errors
