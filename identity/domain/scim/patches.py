"""PATCH operations on resources (RFC 7644 section 3.5.2), as the RFC and as Microsoft Entra ID send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from scim2_models import Path, ScimPolicy

from identity.call import Document
from identity.domain.scim import models
from identity.domain.scim.errors import invalid
from identity.domain.scim.library_errors import reported

MAXIMUM_OPERATIONS: Final = 1000

_MANAGER: Final = f"{models.ENTERPRISE_SCHEMA}:manager".lower()


def prepare(body: Document) -> tuple[Document, list[ScimPolicy]]:
    """Return a patch in the form of the RFC, and the policy under which each of its operations is applied.

    Raises ScimError for too many operations.
    """
    name = next((name for name in body if name.lower() == "operations"), None)
    operations = body.get(name) if name is not None else None
    if not isinstance(operations, list):
        return body, []
    if len(operations) > MAXIMUM_OPERATIONS:
        raise invalid("tooMany", f"A patch may have {MAXIMUM_OPERATIONS} operations.")
    rest = {key: value for key, value in body.items() if key.lower() != "operations"}
    normalized = {**rest, "Operations": [_normalized(operation) for operation in operations]}
    return normalized, [_policy_of(operation) for operation in operations]


def apply(patch: Any, resource: Any, policies: Sequence[ScimPolicy]) -> None:
    """Apply the operations of a validated patch to a resource in their order.

    Raises ScimError, and leaves the resource with the operations before the invalid one.
    """
    for index, (operation, policy) in enumerate(zip(patch.operations, policies, strict=True)):
        where = f"Operations[{index}]"
        with reported(where):
            if operation.path is not None:
                _require_target(resource, operation, where)
            patch.model_copy(update={"operations": [operation]}).patch(resource, scim_policy=policy)


def _require_target(resource: Any, operation: Any, where: str) -> None:
    """Raise ScimError for a path to an unknown attribute, and one into the entries of an attribute without entries."""
    path = Path.__class_getitem__(type(resource))(operation.path)
    if path.model is not None:
        return
    binding = path.resolve()
    if binding is None:
        raise invalid("invalidPath", f"{where}.path: The resource has no such attribute.")
    is_inner = binding.is_multivalued and binding.sub_field_name is not None and path.value_filter is None
    if is_inner and operation.op != "remove" and path.get(resource) is None:
        raise invalid("noTarget", f"{where}.path: The attribute has no entries.")


def _policy_of(operation: Any) -> ScimPolicy:
    """Return the policy of an operation on the entries that a value path selects, if it selects none.

    A `replace` then fails with `noTarget` (RFC 7644 section 3.5.2.3). An `add` creates the entry, and so does the
    `Replace` of Microsoft Entra ID, which the capital distinguishes.
    """
    is_replacement = isinstance(operation, dict) and operation.get("op") == "replace"
    return models.STRICT_POLICY if is_replacement else models.POLICY


def _normalized(operation: Any) -> Any:
    """Return an operation without the value of the removed manager, which Microsoft Entra ID repeats."""
    if not isinstance(operation, dict) or str(operation.get("path", "")).lower() != _MANAGER:
        return operation
    if str(operation.get("op", "")).lower() != "remove":
        return operation
    return {name: value for name, value in operation.items() if name != "value"}
