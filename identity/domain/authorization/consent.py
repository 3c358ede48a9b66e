"""Consent: which scopes require the user's consent, and what a decision grants (spec: scopes and consent).

Only third parties require consent, for provided and custom scopes. Unknown scopes are allowed, removed or rejected by
the unknownScopePolicy without a prompt.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Final

from identity.call import Document
from identity.domain.clients import scopes
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import AccessDenied

REMEMBER: Final = "RememberDecision"


@dataclasses.dataclass(frozen=True, slots=True)
class ConsentDecision:
    """The scopes that a user approved and declined."""

    approved: frozenset[str] = frozenset()
    declined: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class ConsentPrompt:
    """The scopes to prompt for; `requested` are all scopes of the request, `approved` the optional ones preselected.

    `unknown` are undefined scopes that the application's policy grants without consent.
    """

    requested: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    unknown: tuple[str, ...]
    approved: frozenset[str] = frozenset()

    def decide(self, approved: Collection[str]) -> ConsentDecision:
        """Return the decision on all prompted scopes. Raises AccessDenied if a required scope is not approved."""
        if missing := [scope for scope in self.required if scope not in approved]:
            raise AccessDenied("missing_required_scope", f"The application needs: {scopes.join(missing)}")
        prompted = frozenset((*self.required, *self.optional))
        return ConsentDecision(prompted.intersection(approved), prompted.difference(approved))


def scopes_requiring_consent(application: Document, granted: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes that require consent: of third parties only, neither reserved nor unknown ones."""
    oauth = application["oauthConfiguration"]
    if oauth["relationship"] != "ThirdParty" or oauth["consentMode"] == "NeverPrompt":
        return ()
    known = scopes.known_scopes(OAuthSettings.of(application), application["scopes"]) - scopes.RESERVED
    return tuple(scope for scope in granted if scope in known)


def remembers_decisions(application: Document) -> bool:
    """Whether decisions of the application's users are remembered."""
    return bool(application["oauthConfiguration"]["consentMode"] == REMEMBER)


def consent_prompt(
    application: Document, requested: tuple[str, ...], earlier: ConsentDecision | None, *, force: bool
) -> ConsentPrompt | None:
    """Return the prompt for the scopes of a request; None if no consent is required, or an earlier decision covers all.

    `force`: prompt even if an earlier decision covers all (`prompt=consent`).
    """
    prompted = scopes_requiring_consent(application, requested)
    required = required_scopes(application)
    if not prompted or (not force and earlier is not None and _is_covered(prompted, required, earlier)):
        return None
    known = scopes.known_scopes(OAuthSettings.of(application), application["scopes"])
    return ConsentPrompt(
        requested,
        tuple(scope for scope in prompted if scope in required),
        tuple(scope for scope in prompted if scope not in required),
        tuple(scope for scope in requested if scope not in known),
        frozenset() if earlier is None else earlier.approved,
    )


def granted_scopes(application: Document, requested: Iterable[str], decision: ConsentDecision) -> tuple[str, ...]:
    """Return the requested scopes that a decision grants; scopes without consent are always granted."""
    requested = tuple(requested)
    prompted = scopes_requiring_consent(application, requested)
    return tuple(scope for scope in requested if scope not in prompted or scope in decision.approved)


def required_scopes(application: Document) -> frozenset[str]:
    """Return the scopes that the user cannot decline individually."""
    provided = application["oauthConfiguration"]["providedScopePolicy"]
    named = {name for name in scopes.PROVIDED if provided[name]["required"]}
    return frozenset(named | {scope["name"] for scope in application["scopes"] if scope["required"]})


def _is_covered(prompted: Iterable[str], required: Collection[str], earlier: ConsentDecision) -> bool:
    """Whether an earlier decision covers every scope, and declines none that is required now."""
    return all(scope in earlier.approved or (scope in earlier.declined and scope not in required) for scope in prompted)
