"""The texts of the hosted pages by key, in English; themes replace and translate them.

`page_texts.properties` has the format of a theme's messages, so that it can be copied into one. `{0}` stands for a
value, such as a name. An error with a published code has the code, in brackets, as its key.

`{scope-message}email` says what the scope `email` grants, `{scope-detail}email` gives details; both apply to all
applications of a theme. The prefix `[{tenant}<id>]` or `[{application}<id>]` limits a text to a tenant or application.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Final

from identity.domain.objects import property_files

TEXTS: Final = MappingProxyType(
    property_files.read(Path(__file__).with_name("page_texts.properties").read_text("utf-8"))
)


def scope_keys(kind: str, scope: str, application_id: str, tenant_id: str) -> tuple[str, ...]:
    """The keys of the `scope-message` or `scope-detail` of a scope, from the most specific to the least."""
    key = f"{{{kind}}}{scope}"
    return f"[{{application}}{application_id}]{key}", f"[{{tenant}}{tenant_id}]{key}", key
