"""Rules of user actions."""

from __future__ import annotations

from identity.call import Document
from identity.errors import FieldError

_PHASES = ("start", "modify", "cancel", "end")

TEMPLATE_MEMBERS = tuple(f"{phase}EmailTemplateId" for phase in _PHASES)
"""The members that name email templates, one for each phase of a temporal action."""


def problems(action: Document) -> list[FieldError]:
    """Return the errors of a user action that do not depend on other objects."""
    errors = []
    if action["preventLogin"] and not action["temporal"]:
        path = "userAction.preventLogin"
        errors.append(FieldError.invalid(path, "requires an action that is temporal"))
    if action["temporal"] and action["userEmailingEnabled"]:
        paths = (f"userAction.{member}" for member in TEMPLATE_MEMBERS if member not in action)
        errors += [FieldError.missing(path) for path in paths]
    return errors + _option_problems(action["options"])


def can_lock_out(action: Document) -> bool:
    """Whether the action can lock an account for a time."""
    return bool(action["active"] and action["temporal"] and action["preventLogin"])


def _option_problems(options: list[Document]) -> list[FieldError]:
    errors, seen = [], set()
    for index, option in enumerate(options):
        if option["name"] in seen:
            path = f"userAction.options[{index}].name"
            errors.append(FieldError.of("duplicate", path, f"An option with name = [{option['name']}] already exists."))
        seen.add(option["name"])
    return errors
