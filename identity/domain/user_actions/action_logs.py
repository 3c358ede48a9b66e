"""Rules of actions on users: their documents, states, events, and the logins they prevent.

A live action has `private.endsAt`, the instant of its expiry; cancelled, ended and non-temporal actions have none.
Actions that prevent logins are also stored on their users, under `private.preventions`, so that a login needs no query.
"""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Iterable, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.messaging import mail_templates
from identity.domain.messaging.mail_messages import Address, MailContent
from identity.domain.messaging.mail_templates import Part
from identity.domain.objects.data_files import load_yaml
from identity.instants import Instant, as_datetime

INDEFINITE: Final = 2**63 - 1
"""The expiry of an action that lasts until it is cancelled."""

_MAXIMUM_HISTORY: Final = 1000
"""The maximum of former states in a history, which bounds the size of the document."""

_NAMES: Final = Part("name", "name", "localizedNames")
_TEXTS: Final = Part("text", "text", "localizedTexts")
_SUMMARY: Final = (
    "actionerUserId", "expiry", "localizedName", "localizedOption", "localizedReason", "name", "option", "reason",
    "reasonCode",
)  # fmt: skip
_CHANGED_BY_HAND: Final = ("actionerUserId", "comment", "expiry")


def localized_members(
    definition: Document, option: Document | None, reason: Document | None, languages: Iterable[str]
) -> Document:
    """Return name, option and reason of an action, also localized for the user."""
    preferred = list(languages)
    found: Document = {"name": definition["name"], "localizedName": _localized(definition, _NAMES, preferred)}
    if option is not None:
        found |= {"option": option["name"], "localizedOption": _localized(option, _NAMES, preferred)}
    if reason is not None:
        found |= {"reason": reason["text"], "localizedReason": _localized(reason, _TEXTS, preferred)}
        found["reasonCode"] = reason["code"]
    return found


def is_live(log: Document, now: Instant) -> bool:
    """Whether an action is temporal and has neither expired nor been cancelled."""
    return bool(log["private"].get("endsAt", 0) > now)


def modified(log: Document, change: Document, now: Instant) -> Document:
    """Return the modified action, with its former state in the history."""
    private = {**log["private"], "endsAt": change["expiry"], "since": now}
    return _changed(log, {**change, "private": private}, now)


def cancelled(log: Document, change: Document, now: Instant) -> Document:
    """Return the cancelled action: it expires now, and its end needs no further processing."""
    private = {name: value for name, value in log["private"].items() if name not in {"endsAt", "lockOutOf"}}
    return _changed(log, {**change, "expiry": now, "private": {**private, "since": now}}, now)


def _changed(log: Document, change: Document, now: Instant) -> Document:
    former: Document = {name: log[name] for name in _CHANGED_BY_HAND if name in log}
    former["createInstant"] = log["private"].get("since", log["insertInstant"])
    items = [*log["history"]["historyItems"], former]
    unchanged = {name: value for name, value in log.items() if name not in {"actionerUserId", "comment"}}
    version = max(now, log["lastUpdateInstant"] + 1)
    return {**unchanged, **change, "history": {"historyItems": items[-_MAXIMUM_HISTORY:]}, "lastUpdateInstant": version}


def prevention(log: Document) -> Document:
    """Return what is stored on the user of an action that prevents logins."""
    shown: Document = {name: log[name] for name in _SUMMARY if name in log}
    is_lock_out = "lockOutOf" in log["private"]
    if is_lock_out:
        # A localized name would reveal to someone guessing login ids that the account exists.
        shown["localizedName"] = shown["name"]
    return {"actionId": log["id"], **shown, "applicationIds": log["applicationIds"], "isLockOut": is_lock_out}


def preventing(user: Document, application_id: str | None, now: Instant) -> tuple[Document, ...]:
    """Return the preventions that apply to a login to an application, or to the tenant only."""
    return tuple(
        one
        for one in user["private"].get("preventions", ())
        if one["expiry"] > now and (not one["applicationIds"] or application_id in one["applicationIds"])
    )


def summaries(preventions: Iterable[Document]) -> list[Document]:
    """Return the preventions in the form of the response to a prevented login."""
    return [{name: one[name] for name in ("actionId", *_SUMMARY) if one.get(name) is not None} for one in preventions]


def event_payload(log: Document, phase: str, languages: Iterable[str], *, notify: bool) -> Document:
    """Return the event payload of a phase, without the mail."""
    names = ("actioneeUserId", "comment", "option", "localizedOption", "reason", "localizedReason", "reasonCode")
    payload = {name: log.get(name) for name in names}
    return {
        **payload,
        "action": log["name"],
        "actionId": log["id"],
        "actionerUserId": log.get("actionerUserId") if phase != "end" else None,
        "applicationIds": sorted(log["applicationIds"]),
        "expiry": log.get("expiry"),
        "localizedAction": log["localizedName"],
        "localizedDuration": _duration(log, languages),
        "notifyUser": notify,
        "phase": phase,
    }


def email_of(letter: MailContent) -> Document:
    """Return a mail as events contain it."""
    sender = _address(letter.sender)
    return {
        "attachments": [],
        "bcc": [_address(one) for one in letter.bcc],
        "cc": [_address(one) for one in letter.cc],
        "from": sender,
        "html": letter.html or None,
        "replyTo": sender,
        "subject": letter.subject,
        "text": letter.text or None,
        "to": [_address(letter.to)],
    }


def end_of_lock_out(now: Instant, duration: int, unit: str) -> int:
    """Return the expiry of a lock that lasts this many MINUTES, HOURS, DAYS, WEEKS, MONTHS or YEARS."""
    seconds = {"MINUTES": 60, "HOURS": 3600, "DAYS": 86_400, "WEEKS": 604_800}
    if unit in seconds:
        return min(now + duration * seconds[unit] * 1000, INDEFINITE)
    try:
        return _months_later(now, duration * (12 if unit == "YEARS" else 1))
    except (OverflowError, ValueError):
        return INDEFINITE


def _months_later(now: Instant, months: int) -> int:
    """Return the same day this many months later, or the last day of a shorter month."""
    start = as_datetime(now)
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    day = min(start.day, calendar.monthrange(year, month + 1)[1])
    end = start.replace(year=year, month=month + 1, day=day)
    return now + (end - start) // datetime.timedelta(milliseconds=1)


def _duration(log: Document, languages: Iterable[str]) -> str | None:
    expiry, since = log.get("expiry"), log["private"].get("since", log["insertInstant"])
    if expiry is None or expiry == INDEFINITE or expiry <= since:
        return None
    return localized_duration(expiry - since, languages)


def _localized(source: Mapping[str, Any], part: Part, languages: list[str]) -> str:
    return mail_templates.variant(dict(source), part, languages)[1]


def _address(address: Address) -> Document:
    return {"address": address.address, "display": address.display or None}


_UNITS: Final = (86_400, 3600, 60, 1)
_WORDS: Final[Mapping[str, list[str]]] = load_yaml(__file__, "durations.yaml")
"""The singular and plural of each unit, by language."""


def localized_duration(milliseconds: int, languages: Iterable[str]) -> str:
    """Return a duration in its two largest units, such as `1 day 2 hours`, in the first known language, or English."""
    known = (language.replace("-", "_").partition("_")[0].lower() for language in languages)
    words = _WORDS[next((language for language in known if language in _WORDS), "en")]
    parts, rest = [], max(1, round(milliseconds / 1000))
    for seconds, both in zip(_UNITS, words, strict=True):
        count, rest = divmod(rest, seconds)
        if count:
            singular, plural = both.split("|")
            parts.append(f"{count} {singular if count == 1 else plural}")
    return " ".join(parts[:2])
