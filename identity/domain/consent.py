"""Whether a user has to be asked before an application gets what it wants (spec: scopes and consent)."""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Document
from identity.domain import scopes


def to_ask(application: Document, granted: Iterable[str]) -> tuple[str, ...]:
    """The scopes to ask for: none of a first party's, none that are reserved, none that are unknown."""
    oauth = application["oauthConfiguration"]
    if oauth["relationship"] != "ThirdParty" or oauth["consentMode"] == "NeverPrompt":
        return ()
    known = scopes.known_scopes(oauth, application["scopes"]) - scopes.RESERVED
    return tuple(scope for scope in granted if scope in known)


def required(application: Document) -> frozenset[str]:
    """The scopes without which the application takes nothing."""
    provided = application["oauthConfiguration"]["providedScopePolicy"]
    named = {name for name in scopes.PROVIDED if provided[name]["required"]}
    return frozenset(named | {scope["name"] for scope in application["scopes"] if scope["required"]})
