"""Schemas as components: references, variants and conditions, names, and what each use makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from identity.web.openapi.components import Components, Use

Document = dict[str, Any]


@pytest.fixture
def components(tmp_path: Path) -> Components:
    """Components over a few files of our own."""
    files: dict[str, Document] = {
        "api/thing.json": {
            "type": "object",
            "required": ["thing"],
            "properties": {
                "thing": {
                    "type": "object",
                    "required": ["name", "secret"],
                    "properties": {
                        "kind": {"type": "string", "enum": ["a", "b"], "default": "a", "x-text": "verbatim"},
                        "name": {"$ref": "api/other.json#/properties/other/properties/name", "maxLength": 3},
                        "part": {"$ref": "#/$defs/part", "default": {}},
                        "secret": {"type": "string", "writeOnly": True},
                    },
                    "if": {"properties": {"kind": {"const": "b"}}},
                    "then": {"required": ["part"]},
                },
                "eventInfo": {"type": "object"},
            },
            "$defs": {"part": {"type": "object", "properties": {"more": {"$ref": "#/$defs/part"}}}},
        },
        "api/other.json": {
            "type": "object",
            "properties": {"other": {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}}},
        },
        "api/variants.response.json": {
            "type": "object",
            "properties": {
                "either": {"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]},
                "both": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "allOf": [{"properties": {"a": {"minLength": 1}}}],
                },
            },
        },
        "api/thing.request.json": {"type": "object", "properties": {}},
    }
    for name, schema in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(schema))
    return Components(tmp_path)


@pytest.mark.requirement("openapi-2")
def test_answer_is_closed_complete_and_without_secrets(components: Components) -> None:
    assert components.body("api/thing.json#thing", Use.RESPONSE) == {"$ref": "#/components/schemas/ThingResponse"}
    wrapper, thing = components.schemas["ThingResponse"], components.schemas["Thing"]
    assert wrapper["required"] == ["thing"]
    assert wrapper["additionalProperties"] is False
    assert wrapper["properties"] == {"thing": {"$ref": "#/components/schemas/Thing"}}
    assert thing["properties"].keys() == {"kind", "name", "part"}
    assert thing["required"] == ["kind", "name", "part"]
    assert thing["additionalProperties"] is False
    assert thing["properties"]["kind"] == {"type": "string", "enum": ["a", "b"]}


def test_whole_body_leaves_out_what_only_requests_have(components: Components) -> None:
    components.body("api/thing.json", Use.RESPONSE)
    components.body("api/thing.json", Use.REQUEST)
    assert components.schemas["ThingBodyResponse"]["properties"].keys() == {"thing"}
    assert components.schemas["ThingRequest"]["properties"].keys() == {"thing", "eventInfo"}


def test_request_keeps_defaults_secrets_and_openness(components: Components) -> None:
    components.body("api/thing.json", Use.REQUEST)
    thing = components.schemas["ThingInput"]
    assert thing["required"] == ["name", "secret"]
    assert thing["properties"]["secret"]["writeOnly"] is True
    assert thing["properties"]["kind"]["default"] == "a"
    assert "additionalProperties" not in thing


def test_patch_requires_nothing_and_takes_null(components: Components) -> None:
    components.body("api/thing.json", Use.PATCH)
    thing = components.schemas["ThingPatch"]
    assert "required" not in thing
    assert thing["properties"]["kind"] == {"type": ["string", "null"], "enum": ["a", "b", None]}


def test_reference_with_siblings_other_than_annotations_is_inlined(components: Components) -> None:
    components.body("api/thing.json", Use.REQUEST)
    assert components.schemas["ThingInput"]["properties"]["name"] == {"type": "string", "minLength": 1, "maxLength": 3}


def test_reference_may_lead_back_to_where_it_stands(components: Components) -> None:
    components.body("api/thing.json", Use.RESPONSE)
    part = components.schemas["ThingPart"]
    assert part["properties"]["more"] == {"$ref": "#/components/schemas/ThingPart"}


def test_conditions_and_variants_of_an_object_are_not_closed(components: Components) -> None:
    """Each of them would refuse the members that the others have."""
    components.body("api/thing.json", Use.RESPONSE)
    assert components.schemas["Thing"]["if"] == {"properties": {"kind": {"const": "b"}}}
    assert components.schemas["Thing"]["then"] == {"required": ["part"]}
    components.body("api/variants.response.json", Use.RESPONSE)
    both = components.schemas["VariantsBoth"]
    assert both["additionalProperties"] is False
    assert both["allOf"] == [{"properties": {"a": {"minLength": 1}}}]
    either = components.schemas["VariantsResponse"]["properties"]["either"]
    assert either["oneOf"][0]["additionalProperties"] is False


def test_two_things_do_not_go_by_one_name(components: Components) -> None:
    components.body("api/thing.json", Use.REQUEST)
    with pytest.raises(ValueError, match="ThingRequest is both"):
        components.body("api/thing.request.json", Use.REQUEST)
