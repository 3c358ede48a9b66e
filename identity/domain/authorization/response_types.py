"""Response types: those supported, their grants and their response modes.

Words may come in any order (OAuth 2.0 Multiple Response Type Encoding Practices, section 3).
"""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

ResponseMode = Literal["query", "fragment", "form_post"]

MODES: Final[tuple[ResponseMode, ...]] = ("query", "fragment", "form_post")


@dataclasses.dataclass(frozen=True, slots=True)
class ResponseType:
    """One response_type. Tokens are never returned in a query (Multiple Response Types, section 2.1)."""

    words: frozenset[str]
    grant_types: tuple[str, ...]

    @property
    def is_hybrid(self) -> bool:
        """Whether tokens are returned together with a code (OpenID Connect Core 3.3)."""
        return len(self.grant_types) > 1

    @property
    def default_mode(self) -> ResponseMode:
        """The response mode of a request that names none."""
        return "query" if self.words == {"code"} else "fragment"

    @property
    def modes(self) -> tuple[ResponseMode, ...]:
        """The response modes that a request may name."""
        return MODES if self.words == {"code"} else ("fragment", "form_post")

    def gives(self, word: str) -> bool:
        """Whether the response contains `code`, `token` or `id_token`."""
        return word in self.words


_SUPPORTED: Final = {
    response_type.words: response_type
    for response_type in (
        ResponseType(frozenset({"code"}), ("authorization_code",)),
        ResponseType(frozenset({"token"}), ("implicit",)),
        ResponseType(frozenset({"id_token"}), ("implicit",)),
        ResponseType(frozenset({"token", "id_token"}), ("implicit",)),
        ResponseType(frozenset({"code", "id_token"}), ("authorization_code", "implicit")),
        ResponseType(frozenset({"code", "token"}), ("authorization_code", "implicit")),
        ResponseType(frozenset({"code", "id_token", "token"}), ("authorization_code", "implicit")),
    )
}


def find(text: str | None, *, hybrid: bool) -> ResponseType | None:
    """Return the response type that a parameter names, or None if it is not supported.

    `hybrid`: the application enables the hybrid response types.
    """
    words = (text or "").split(" ")
    found = _SUPPORTED.get(frozenset(words))
    if found is None or len(words) != len(found.words) or (found.is_hybrid and not hybrid):
        return None
    return found


def effective_mode(response_type: ResponseType | None, requested: str | None) -> ResponseMode:
    """Return the response mode of a request, also for the errors of an invalid one."""
    modes = MODES if response_type is None else response_type.modes
    for mode in modes:
        if mode == requested:
            return mode
    return "query" if response_type is None else response_type.default_mode
