"""Second factors for tests: an authenticator app, and a user who has one."""

from __future__ import annotations

import base64
from typing import Any

from identity.domain.two_factor import totp
from identity.ids import new_id
from identity.instants import Instant
from tests.mailbox import Mailbox
from tests.relying_party import RelyingParty

SECRET = base64.b64encode(b"12345678901234567890").decode()
"""The secret of RFC 6238 appendix B, as the API writes it."""


def code(now: Instant, *, steps: int = 0, secret: str = SECRET) -> str:
    """What an authenticator app shows, so many steps from now."""
    return totp.code(base64.b64decode(secret), now // 1000 // 30 + steps, "HmacSHA1", 6)


def wrong_code(now: Instant) -> str:
    """Six digits that no authenticator shows at about this time."""
    shown = {code(now, steps=steps) for steps in range(-3, 4)}
    return next(text for text in (f"{number:06}" for number in range(10)) if text not in shown)


def authenticator(**members: Any) -> dict[str, Any]:
    """A method of a user."""
    return {"method": "authenticator", "secret": SECRET, **members}


async def enable_email(rp: RelyingParty, box: Mailbox, text: str = "{{ code }}") -> str:
    """Let the tenant send codes by email; answers the id of the template."""
    body = {
        "name": f"Code {new_id()}", "defaultSubject": "Code", "defaultHtmlTemplate": "<p>{{ code }}</p>",
        "defaultTextTemplate": text,
    }  # fmt: skip
    template_id = await _made(rp, "/api/email/template", "emailTemplate", body)
    email = {"enabled": True, "templateId": template_id}
    await rp.configure_tenant(emailConfiguration=box.configuration(), multiFactorConfiguration={"email": email})
    return template_id


async def enable_sms(rp: RelyingParty, url: str) -> None:
    """Let the tenant send codes by text message, through a messenger at this address."""
    messenger = {"name": new_id(), "type": "Generic", "url": url, "connectTimeout": 5000, "readTimeout": 5000}
    messenger_id = await _made(rp, "/api/messenger", "messenger", messenger)
    template = {"name": new_id(), "type": "SMS", "defaultTemplate": "{{ code }}"}
    template_id = await _made(rp, "/api/message/template", "messageTemplate", template)
    sms = {"enabled": True, "messengerId": messenger_id, "templateId": template_id}
    await rp.configure_tenant(multiFactorConfiguration={"sms": sms})


async def mailed_code(box: Mailbox, count: int = 1) -> str:
    """The code in the newest of so many mails."""
    return str((await box.wait_for(count))[-1].part("plain").strip())


async def _made(rp: RelyingParty, path: str, name: str, body: dict[str, Any]) -> str:
    answer = await rp.api.post(path, json={name: body})
    assert answer.status_code == 200, answer.text
    return str(answer.json()[name]["id"])
