"""The texts of the hosted pages by key: those of the catalogues, which themes replace.

An error with a published code has the code, in brackets, as its key. `{scope-message}email` says what the scope `email`
grants, `{scope-detail}email` gives details; both apply to all applications of a theme. The prefix `[{tenant}<id>]` or
`[{application}<id>]` limits a text to a tenant or application.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from identity.domain.objects import catalogues

MAIL_PREFIX: Final = "mail."
"""Of the keys that belong to mails, which themes do not replace."""

TEXTS: Final = MappingProxyType(
    {key: text for key, text in catalogues.texts(catalogues.SOURCE_LANGUAGE).items() if not key.startswith(MAIL_PREFIX)}
)
"""The English texts of all pages."""


def scope_keys(kind: str, scope: str, application_id: str, tenant_id: str) -> tuple[str, ...]:
    """The keys of the `scope-message` or `scope-detail` of a scope, from the most specific to the least."""
    key = f"{{{kind}}}{scope}"
    return f"[{{application}}{application_id}]{key}", f"[{{tenant}}{tenant_id}]{key}", key
