"""Errors of refused patches name the operation and reveal no values."""

from __future__ import annotations

import pytest

from identity.domain.objects import patch
from identity.errors import Invalid

SECRET = "a-secret-that-no-message-repeats"


@pytest.mark.requirement("core-1-16", "webhooks-4-4")
@pytest.mark.parametrize(
    ("operation", "cause"),
    [
        ({"op": "test", "path": "/apiKey/key", "value": "x"}, "tests for another value"),
        ({"op": "test", "path": "/apiKey/name", "value": "x"}, "tests for another value"),
        ({"op": "remove", "path": "/apiKey/name"}, "is not there"),
        ({"op": "replace", "path": "/apiKey/name", "value": "x"}, "is not there"),
        ({"op": "add", "path": "/apiKey/key/x", "value": "x"}, "is not there"),
        ({"op": "copy", "from": "/apiKey/name", "path": "/apiKey/data"}, "is not there"),
        ({"op": "move", "from": "/nothing", "path": "/apiKey/data"}, "is not there"),
        ({"op": "nonsense", "path": "/apiKey/key"}, "is malformed"),
        ({"op": "add", "path": "/apiKey/~2", "value": "x"}, "is malformed"),
    ],
)
def test_error_names_the_operation_without_object_data(operation, cause):
    stored = {"apiKey": {"key": SECRET}}
    first = {"op": "add", "path": "/apiKey/ok", "value": 1}
    with pytest.raises(Invalid) as refused:
        patch.apply(patch.JSON_PATCH, stored, [first, operation])
    (error,) = refused.value.general
    assert error.code == "[invalidPatch]"
    assert f"operation 2 at [{operation['path']}]" in error.message
    assert cause in error.message
    assert SECRET not in error.message
    assert stored == {"apiKey": {"key": SECRET}}
