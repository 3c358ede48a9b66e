"""The phases of an action on a user: start, modify, cancel, end. Each is written with its mail and its event, or not.

What is written, the mail and the event go into one transaction: none of them is there without the others, whatever is
killed when.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from identity.call import Call, Document
from identity.domain.user_actions import action_logs as rules
from identity.domain.webhooks.webhook_transactions import NONE
from identity.events.changes import Change, Event, Write
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.messaging import mail
from identity.operations.messaging.mail import Draft
from identity.operations.sessions import session_termination, sso_sessions
from identity.operations.sessions.session_termination import SessionTermination
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """One phase: the action as it is from now on, and who hears of it.

    `definition` is the user action, or None where it is gone. `is_told` and `is_mailed` say whether webhooks and user
    shall hear of the phase, `notify` what the event says about notifying the user.
    """

    name: str
    definition: Document | None
    log: Document
    user: Document
    is_told: bool
    is_mailed: bool
    notify: bool = False

    @property
    def tenant_id(self) -> TenantId:
        """The tenant of both."""
        return TenantId(self.log["tenantId"])

    @property
    def prevents_login(self) -> bool:
        """Whether the action keeps its user from logging in."""
        return bool(self.log["private"]["preventLogin"])


async def run(services: Services, call: Call, phase: Phase, write: Write[None], *, can_be_vetoed: bool = True) -> None:
    """Go through a phase: `write` writes the action. Raises WebhookTransactionFailed, and what `write` raises.

    At the start of an action that prevents logins the user's refresh tokens and sessions end, as the tenant wants it.
    """
    call = call.within(phase.tenant_id)
    draft = await _draft(services, call, phase)
    ending = await _sign_outs(services, call, phase)
    events = [_event(phase, draft)] if phase.is_told else []
    signed_out = [event for one in ending for event in one.events]
    jobs = [] if draft is None else [draft.mail]
    writes: list[Write[Any]] = [write, functools.partial(services.mails.add, jobs, call.now)]
    for one in ending:
        writes += session_termination.writes(services, call, one)
    offered, announced = (events + signed_out, []) if can_be_vetoed else (signed_out, events)
    await services.bus.commit(call, Change(writes, offered, announced))
    for one in ending:
        await session_termination.finish(services, call, one)
    if phase.name == "start" and phase.prevents_login and not phase.log["applicationIds"]:
        # For sessions that the tenant's policy leaves alone, and for a login that was under way all the time.
        await sso_sessions.end_all(services, call, phase.tenant_id, UserId(phase.user["id"]))


def payload(phase: Phase) -> Document:
    """What the event of a phase tells, and its mail can say, but for the mail itself."""
    languages = phase.user.get("preferredLanguages", [])
    return rules.event_payload(phase.log, phase.name, languages, notify=phase.notify)


def _event(phase: Phase, draft: Draft | None) -> Event:
    definition = phase.definition or {}
    told = {**payload(phase), "emailedUser": draft is not None}
    if draft is not None and definition.get("includeEmailInEventJSON"):
        told["email"] = rules.email_of(draft.letter)
    agreement = NONE if phase.name == "end" else definition.get("transactionType", NONE)
    return Event("user.action", told, transaction_type=agreement)


async def _draft(services: Services, call: Call, phase: Phase) -> Draft | None:
    """The mail of the phase, where there is to be one and it can be made."""
    template_id = (phase.definition or {}).get(f"{phase.name}EmailTemplateId")
    if not phase.is_mailed or template_id is None:
        return None
    data: Document = {"event": {name: value for name, value in payload(phase).items() if value is not None}}
    made = await mail.draft(services, call, phase.tenant_id, template_id, phase.user, data)
    return made if isinstance(made, Draft) else None


async def _sign_outs(services: Services, call: Call, phase: Phase) -> Sequence[SessionTermination]:
    """The refresh tokens that end because their user may not log in any more."""
    if phase.name != "start" or not phase.prevents_login:
        return ()
    tenant = await services.tenants.get(None, phase.tenant_id)
    if not tenant["jwtConfiguration"]["refreshTokenRevocationPolicy"]["onLoginPrevented"]:
        return ()
    geoip: Sequence[ApplicationId | None] = [ApplicationId(one) for one in phase.log["applicationIds"]] or [None]
    return [await session_termination.prepare(services, call, phase.user, place) for place in geoip]
