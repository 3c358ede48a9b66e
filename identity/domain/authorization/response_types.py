"""Response types: which are spoken, the grants each needs, and the ways in which its answer may travel.

Words may come in any order (OAuth 2.0 Multiple Response Type Encoding Practices, section 3).
"""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

ResponseMode = Literal["query", "fragment", "form_post"]

MODES: Final[tuple[ResponseMode, ...]] = ("query", "fragment", "form_post")


@dataclasses.dataclass(frozen=True, slots=True)
class ResponseType:
    """One response_type. Tokens never travel in a query (Multiple Response Types, section 2.1)."""

    words: frozenset[str]
    grant_types: tuple[str, ...]

    @property
    def is_hybrid(self) -> bool:
        """Whether tokens come together with a code (OpenID Connect Core 3.3)."""
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
        """Whether the answer holds this: `code`, `token` or `id_token`."""
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
    """The response type that a parameter names, or None for one that is not spoken here.

    `hybrid`: whether the application has the hybrid types switched on; without them they are as unknown as any other.
    """
    words = (text or "").split(" ")
    found = _SUPPORTED.get(frozenset(words))
    if found is None or len(words) != len(found.words) or (found.is_hybrid and not hybrid):
        return None
    return found


def answer_mode(response_type: ResponseType | None, wanted: str | None) -> ResponseMode:
    """How the answer to a request travels, its errors included, however wrong the request is."""
    modes = MODES if response_type is None else response_type.modes
    for mode in modes:
        if mode == wanted:
            return mode
    return "query" if response_type is None else response_type.default_mode
