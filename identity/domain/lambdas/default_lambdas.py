"""The default lambdas of an instance: reconcile a user with the claims of an identity provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).with_name("defaults")
_FILES: Final[Mapping[str, str]] = {
    "AppleReconcile": "id_token_reconcile.js",
    "FacebookReconcile": "facebook_reconcile.js",
    "GoogleReconcile": "id_token_reconcile.js",
    "OpenIDReconcile": "openid_reconcile.js",
    "SAMLv2Reconcile": "saml_reconcile.js",
    "TwitterReconcile": "twitter_reconcile.js",
}

BODIES: Final[Mapping[str, str]] = {kind: (_FOLDER / name).read_text("utf-8") for kind, name in _FILES.items()}
"""Source text by type."""


def name_of(kind: str) -> str:
    """Return the name of the default lambda of a type."""
    return f"Default {kind.removesuffix('Reconcile')} reconcile"
