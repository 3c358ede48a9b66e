"""The constant parts of the OpenAPI document, from texts.yaml: security schemes, headers and descriptions."""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.domain.objects.data_files import load_yaml

_TEXTS: Final = load_yaml(__file__, "texts.yaml")

SECURITY_SCHEMES: Final[Document] = _TEXTS["security_schemes"]
HEADERS: Final[Document] = _TEXTS["headers"]
JSON_PATCH: Final[Document] = _TEXTS["json_patch"]
BINARY: Final[Document] = _TEXTS["binary"]
QUERY_TYPES: Final[Document] = _TEXTS["query_types"]
EMPTY_RESPONSES: Final[dict[int, str]] = _TEXTS["empty_responses"]
ERRORS: Final[dict[int, str]] = _TEXTS["errors"]
OAUTH_ERRORS: Final[dict[int, str]] = _TEXTS["oauth_errors"]


def describe_query_parameter(name: str) -> str:
    """Return the description of a query parameter of the management API."""
    description: str = _TEXTS["query_parameters"].get(name, f"The {name}.")
    return description
