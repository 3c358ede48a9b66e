"""`/account/sessions`, `/account/applications`, `/account/links`: users see and revoke access to their account."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Final

from identity.call import Call, Document
from identity.domain.objects import catalogues
from identity.errors import WebhookTransactionFailed
from identity.operations.pages import account_access, page_messages
from identity.operations.pages.accounts import Account
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, redirect
from identity.web.hosted import csrf
from identity.web.hosted.page_theme import PageTheme
from identity.web.self_service.account import NO_FEEDBACK, AccountContext, AccountFormHandler, FormFeedback

_CHANGED: Final = "revoked"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a list: its name, further lines, and the button that revokes it with its fields."""

    label: str
    details: Sequence[str]
    button: str
    hidden: Sequence[tuple[str, str]]
    description: str
    """The accessible name of the button."""


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """A list with its heading, and the text that replaces an empty list."""

    heading: str
    empty: str
    entries: Sequence[Entry]


class AccessHandler(AccountFormHandler):
    """A page with lists of what has access to the account."""

    text_prefix: ClassVar[str]
    """The first part of the keys of the page's texts."""
    requires_recent_login = False

    async def page(self, context: AccountContext, given: Document, feedback: FormFeedback = NO_FEEDBACK) -> Reply:
        """Return the lists."""
        theme = context.theme
        is_changed = given.get("changed") == _CHANGED and not feedback.message
        values = {
            "title": theme[f"{self.text_prefix}.title"],
            "heading": theme[f"{self.text_prefix}.heading"],
            "lead": theme[f"{self.text_prefix}.lead"],
            "is_good": is_changed,
            "sections": await self.sections(context.account, theme),
            "links": [(theme["account.back"], context.url("/account"))],
        }
        message = f"{self.text_prefix}.revoked" if is_changed else feedback.message
        return csrf.form_page(self, "account_access.html", values, theme, context.form_parameters, message=message)

    async def submit(self, call: Call, context: AccountContext, form: Document) -> Reply:
        """Revoke an entry."""
        try:
            problem = await self.revoke(call, context.account, form)
        except WebhookTransactionFailed:
            problem = page_messages.CHANGE_REJECTED
        if problem:
            return await self.page(context, form, FormFeedback(message=problem))
        return redirect(context.url(self.page_path, changed=_CHANGED))

    @abc.abstractmethod
    async def sections(self, account: Account, theme: PageTheme) -> list[Section]:
        """Return the lists."""

    @abc.abstractmethod
    async def revoke(self, call: Call, account: Account, form: Document) -> str:
        """Revoke what a form names; return the key of a page text if that is not possible."""

    def now_call(self) -> Call:
        """Return a call of the user at this moment."""
        return Call(None, self.caller, self.services.clock.now(), self.origin())


class SessionsHandler(AccessHandler):
    """The signed-in browsers, and the devices that stay signed in."""

    page_path = "/account/sessions"
    text_prefix = "accountSessions"

    async def sections(self, account: Account, theme: PageTheme) -> list[Section]:
        """Return the browsers and the devices."""
        call = self.now_call()
        browsers = [
            self.session_entry(session, theme)
            for session in await account_access.find_sessions(self.services, call, account)
        ]
        devices = [
            self.device_entry(device, theme)
            for device in await account_access.find_devices(self.services, call, account)
        ]
        return [
            Section(theme["accountSessions.browsers"], theme["accountSessions.noBrowsers"], browsers),
            Section(theme["accountSessions.devices"], theme["accountSessions.noDevices"], devices),
        ]

    def session_entry(self, session: account_access.BrowserSession, theme: PageTheme) -> Entry:
        """Return the entry of a browser."""
        label = theme["accountSessions.this" if session.is_current else "accountSessions.other"]
        details = [
            theme.fill("accountSessions.signedIn", catalogues.date_and_time(session.signed_in_instant, theme.language)),
            theme.fill("accountSessions.lastUse", catalogues.date_and_time(session.last_use_instant, theme.language)),
        ]
        hidden = [("sessionId", session.session_id)]
        button = theme["accountSessions.end"]
        return Entry(label, details, button, hidden, f"{button}: {label}, {details[0]}")

    def device_entry(self, device: account_access.Device, theme: PageTheme) -> Entry:
        """Return the entry of a device."""
        details = [
            device.name,
            theme.fill("accountSessions.lastUse", catalogues.date_and_time(device.last_use_instant, theme.language)),
            device.address,
        ]
        button = theme["accountSessions.end"]
        shown = [text for text in details if text]
        description = ", ".join([f"{button}: {device.application_name}", *shown])
        return Entry(device.application_name, shown, button, [("deviceId", device.record_id)], description)

    async def revoke(self, call: Call, account: Account, form: Document) -> str:
        """Sign a browser or a device out."""
        if "sessionId" in form:
            await account_access.end_session(self.services, call, account, form["sessionId"])
        if "deviceId" in form:
            await account_access.revoke_device(self.services, call, account, form["deviceId"])
        return ""


class ApplicationsHandler(AccessHandler):
    """The applications with access to the account."""

    page_path = "/account/applications"
    text_prefix = "accountApplications"

    async def sections(self, account: Account, theme: PageTheme) -> list[Section]:
        """Return the applications."""
        button = theme["accountApplications.revoke"]
        entries = []
        for found in await account_access.find_applications(self.services, self.now_call(), account):
            scopes = [
                theme.scope_text("scope-message", scope, account.client.application) or scope for scope in found.scopes
            ]
            details = [", ".join(scopes)] if scopes else []
            if found.devices:
                details.append(theme.fill("accountApplications.devices", str(found.devices)))
            hidden = [("applicationId", found.application_id)]
            entries.append(Entry(found.name, details, button, hidden, f"{button}: {found.name}"))
        return [Section("", theme["accountApplications.none"], entries)]

    async def revoke(self, call: Call, account: Account, form: Document) -> str:
        """Revoke the access of an application."""
        if "applicationId" in form:
            await account_access.revoke_application(self.services, call, account, form["applicationId"])
        return ""


class LinksHandler(AccessHandler):
    """The accounts at identity providers by which the user can sign in."""

    page_path = "/account/links"
    text_prefix = "accountLinks"
    requires_recent_login = True

    async def sections(self, account: Account, theme: PageTheme) -> list[Section]:
        """Return the linked logins."""
        button = theme["accountLinks.remove"]
        entries = [
            Entry(
                link.provider_name,
                [
                    link.display_name,
                    theme.fill("accountLinks.since", catalogues.date(link.linked_instant, theme.language)),
                ],
                button,
                [("identityProviderId", link.provider_id), ("identityProviderUserId", link.provider_user_id)],
                f"{button}: {link.provider_name}, {link.display_name}",
            )
            for link in await account_access.find_links(self.services, account)
        ]
        return [Section("", theme["accountLinks.none"], entries)]

    async def revoke(self, call: Call, account: Account, form: Document) -> str:
        """Remove a linked login."""
        provider_id, provider_user_id = form.get("identityProviderId", ""), form.get("identityProviderUserId", "")
        return await account_access.remove_link(self.services, call, account, provider_id, provider_user_id)


ROUTES = [Route(handler.page_path, handler) for handler in (SessionsHandler, ApplicationsHandler, LinksHandler)]
