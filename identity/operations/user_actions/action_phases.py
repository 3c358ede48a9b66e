"""The phases of an action on a user: start, modify, cancel, end.

Each phase is committed in one transaction with its mail, its event and the revocation of the user's tokens.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.objects.owner_settings import RevocationPolicy
from identity.domain.user_actions import action_logs as action_rules
from identity.domain.webhooks.webhook_transactions import NONE
from identity.events.changes import Change, Event
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.messaging import mail
from identity.operations.messaging.mail import RenderedMail
from identity.operations.sessions import session_termination, sso_sessions
from identity.operations.sessions.session_termination import SessionTermination
from identity.services import Services
from identity.store.mongo import Write


@dataclasses.dataclass(frozen=True, slots=True)
class Notifications:
    """Whether a phase emits an event and sends a mail, and whether the event asks its receiver to notify the user."""

    event: bool
    mail: bool
    notify_user: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """One phase of an action: the action as it is from now on, its user, and whom to notify.

    `definition` is the user action, or None if it was deleted.
    """

    name: str
    definition: Document | None
    log: Document
    user: Document
    notifications: Notifications

    @property
    def tenant_id(self) -> TenantId:
        """The tenant of the action and its user."""
        return TenantId(self.log["tenantId"])

    @property
    def prevents_login(self) -> bool:
        """Whether the action prevents its user from logging in."""
        return bool(self.log["private"]["preventLogin"])


async def commit(
    services: Services, call: Call, phase: Phase, writes: Sequence[Write], *, can_be_vetoed: bool = True
) -> None:
    """Commit the writes of a phase with its mail and event.

    The start of an action that prevents logins also terminates the user's tokens and sessions, as the tenant
    configures. Raises WebhookTransactionFailed, and what the writes raise.
    """
    call = call.within(phase.tenant_id)
    draft = await _draft_mail(services, call, phase)
    terminations = await _terminations(services, call, phase)
    events = [_event(phase, draft)] if phase.notifications.event else []
    revocations = [event for termination in terminations for event in termination.events]
    change = Change(
        writes=[
            *writes,
            functools.partial(services.outbound.mails.add, [] if draft is None else [draft.mail], call.now),
            *(write for one in terminations for write in session_termination.writes(services, call, one)),
        ],
        before_commit=[*events, *revocations] if can_be_vetoed else revocations,
        after_commit=[] if can_be_vetoed else events,
    )
    await services.bus.commit(call, change)
    for termination in terminations:
        await session_termination.finish(services, call, termination)
    if phase.name == "start" and phase.prevents_login and not phase.log["applicationIds"]:
        # Ends sessions that the tenant's revocation policy keeps, and that of a login in progress.
        await sso_sessions.end_all(services, call, phase.tenant_id, UserId(phase.user["id"]))


def _payload(phase: Phase) -> Document:
    """Return the event payload of a phase without its mail; the template of the mail reads it too."""
    languages = phase.user.get("preferredLanguages", [])
    return action_rules.event_payload(phase.log, phase.name, languages, notify=phase.notifications.notify_user)


def _event(phase: Phase, draft: RenderedMail | None) -> Event:
    definition = phase.definition or {}
    payload = {**_payload(phase), "emailedUser": draft is not None}
    if draft is not None and definition.get("includeEmailInEventJSON"):
        payload["email"] = action_rules.email_of(draft.content)
    transaction_type = NONE if phase.name == "end" else definition.get("transactionType", NONE)
    return Event("user.action", payload, transaction_type=transaction_type)


async def _draft_mail(services: Services, call: Call, phase: Phase) -> RenderedMail | None:
    """Return the mail of the phase, or None if it has none or its template fails."""
    template_id = (phase.definition or {}).get(f"{phase.name}EmailTemplateId")
    if not phase.notifications.mail or template_id is None:
        return None
    data: Document = {"event": {name: value for name, value in _payload(phase).items() if value is not None}}
    draft = await mail.render(services, call, phase.tenant_id, template_id, phase.user, data)
    return draft if isinstance(draft, RenderedMail) else None


async def _terminations(services: Services, call: Call, phase: Phase) -> Sequence[SessionTermination]:
    """Return the terminations, one per application, that the start of an action causes by preventing logins."""
    if phase.name != "start" or not phase.prevents_login:
        return ()
    tenant = await services.configuration.tenants.get(None, phase.tenant_id)
    if not RevocationPolicy.of(tenant).on_login_prevented:
        return ()
    application_ids: Sequence[ApplicationId | None] = list(map(ApplicationId, phase.log["applicationIds"])) or [None]
    return [await session_termination.prepare(services, call, phase.user, one) for one in application_ids]
