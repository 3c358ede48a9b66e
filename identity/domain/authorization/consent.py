"""Whether a user has to be asked before an application gets what it wants, and what the answer grants.

First parties are never asked about, and of scopes only those that an application may have a say in: provided and custom
ones. What is unknown is kept, dropped or refused by the unknownScopePolicy, and nobody is asked (spec: scopes and
consent).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Final

from identity.call import Document
from identity.domain.clients import scopes
from identity.errors import AccessDenied

REMEMBER: Final = "RememberDecision"


@dataclasses.dataclass(frozen=True, slots=True)
class ConsentDecision:
    """What a user answered an application earlier, as far as it still holds."""

    approved: frozenset[str] = frozenset()
    declined: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class ConsentPrompt:
    """What a user has to be asked; `wanted` are all scopes of the request, `approved` the optional ones to suggest.

    `unknown` are scopes that the application gets in any case, because its policy allows what nobody defined.
    """

    wanted: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    unknown: tuple[str, ...]
    approved: frozenset[str] = frozenset()

    def answered(self, approved: Collection[str]) -> ConsentDecision:
        """What an answer decides of what was asked. Raises AccessDenied when a required scope is not approved."""
        if missing := [scope for scope in self.required if scope not in approved]:
            raise AccessDenied("missing_required_scope", f"The application needs: {scopes.join(missing)}")
        asked = frozenset((*self.required, *self.optional))
        return ConsentDecision(asked.intersection(approved), asked.difference(approved))


def scopes_to_ask_for(application: Document, granted: Iterable[str]) -> tuple[str, ...]:
    """The scopes to ask for: none of a first party's, none that are reserved, none that are unknown."""
    oauth = application["oauthConfiguration"]
    if oauth["relationship"] != "ThirdParty" or oauth["consentMode"] == "NeverPrompt":
        return ()
    known = scopes.known_scopes(oauth, application["scopes"]) - scopes.RESERVED
    return tuple(scope for scope in granted if scope in known)


def remembers_decisions(application: Document) -> bool:
    """Whether the application's users are asked once for a while."""
    return bool(application["oauthConfiguration"]["consentMode"] == REMEMBER)


def consent_prompt(
    application: Document, wanted: tuple[str, ...], earlier: ConsentDecision | None, *, again: bool
) -> ConsentPrompt | None:
    """What to ask for the scopes of a request; None where nothing is to be asked, or all of it was answered earlier.

    `again`: the application wants the user to be asked in any case (`prompt=consent`).
    """
    asked = scopes_to_ask_for(application, wanted)
    needed = required_scopes(application)
    if not asked or (not again and earlier is not None and _is_answered(asked, needed, earlier)):
        return None
    known = scopes.known_scopes(application["oauthConfiguration"], application["scopes"])
    return ConsentPrompt(
        wanted,
        tuple(scope for scope in asked if scope in needed),
        tuple(scope for scope in asked if scope not in needed),
        tuple(scope for scope in wanted if scope not in known),
        frozenset() if earlier is None else earlier.approved,
    )


def granted_scopes(application: Document, wanted: Iterable[str], decision: ConsentDecision) -> tuple[str, ...]:
    """What a decision leaves of the wanted scopes; what nobody is asked about stays."""
    wanted = tuple(wanted)
    asked = scopes_to_ask_for(application, wanted)
    return tuple(scope for scope in wanted if scope not in asked or scope in decision.approved)


def required_scopes(application: Document) -> frozenset[str]:
    """The scopes without which the application takes nothing."""
    provided = application["oauthConfiguration"]["providedScopePolicy"]
    named = {name for name in scopes.PROVIDED if provided[name]["required"]}
    return frozenset(named | {scope["name"] for scope in application["scopes"] if scope["required"]})


def _is_answered(asked: Iterable[str], needed: Collection[str], earlier: ConsentDecision) -> bool:
    """Whether an earlier answer covers every scope, and declines none that is required by now."""
    return all(scope in earlier.approved or (scope in earlier.declined and scope not in needed) for scope in asked)
