"""Results of lambdas and how they are applied."""

from __future__ import annotations

import pytest

from identity.domain.lambdas import lambdas as rules
from identity.errors import FieldError, GeneralError
from identity.schemas import load


@pytest.mark.requirement("core-18-lambdas-8")
def test_every_type_of_the_schema_has_its_function_and_no_other():
    types = load("api/lambda.json")["properties"]["lambda"]["properties"]["type"]["enum"]
    assert sorted(types) == sorted(rules.FUNCTIONS)
    assert set(rules.FUNCTIONS.values()) == {"checkRequired", "convert", "populate", "reconcile", "validate"}


@pytest.mark.requirement("core-18-lambdas-9")
@pytest.mark.parametrize("resource", ["tenant", "application"])
def test_every_member_that_names_a_lambda_has_its_type(resource):
    schema = load(f"api/{resource}.json")["properties"][resource]["properties"]
    declared = {f"lambdaConfiguration.{name}" for name in schema["lambdaConfiguration"]["properties"]}
    declared |= {
        f"oauthConfiguration.{name}" for name in schema["oauthConfiguration"]["properties"] if "Lambda" in name
    }
    assert set(rules.REFERENCES[resource]) == declared
    assert set(rules.REFERENCES[resource].values()) <= set(rules.FUNCTIONS)


def test_returned_arguments_keep_their_json_types():
    given = [{"a": 1}, None, ["x"], "text", 5, True]
    text = '[{"b":[{"c":null}]},null,[],"other",2.5,false]'
    assert rules.returned(text, given) == [{"b": [{"c": None}]}, None, [], "other", 2.5, False]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("undefined", "not JSON"),
        ('[{"a":"\\ud800"},null]', "not JSON"),
        ("5", "something else"),
        ("{}", "something else"),
        ("[{}]", "something else"),
        ("[{},null,1]", "something else"),
        ("[5,null]", "argument 1 was of the kind object and came back as number"),
        ("[[],null]", "argument 1 was of the kind object and came back as list"),
        ("[null,null]", "argument 1 was of the kind object and came back as null"),
        ('["x",null]', "argument 1 was of the kind object and came back as text"),
        ("[true,null]", "argument 1 was of the kind object and came back as boolean"),
        ("[{},{}]", "argument 2 was of the kind null and came back as object"),
        ('[{"a":' + "[" * 40 + "]" * 40 + "},null]", "nested deeper"),
        ('[{"a":' + "[" * 5000 + "]" * 5000 + "},null]", "not JSON"),
    ],
)
def test_unusable_results_are_rejected(text, reason):
    with pytest.raises(rules.ReturnedError, match=reason):
        rules.returned(text, [{}, None])


@pytest.mark.requirement("core-18-lambdas-26")
def test_attack_proto_is_removed_at_every_depth():
    text = '[{"__proto__":{"x":1},"a":[{"__proto__":1,"b":2}],"constructor":{"prototype":{}}}]'
    assert rules.returned(text, [{}]) == [{"a": [{"b": 2}], "constructor": {"prototype": {}}}]


def test_reserved_claims_are_unchanged():
    claims = {"sub": "1", "exp": 5, "email": "a@b.c", "roles": ["x"]}
    after = {"sub": "2", "tid": "new", "amr": ["pwd"], "email": None, "roles": [], "colour": "blue"}
    populated = rules.populated(claims, after, rules.USER_TOKEN_CLAIMS)
    assert populated == {"sub": "1", "exp": 5, "roles": [], "colour": "blue"}


def test_errors_are_read_in_both_forms():
    result = {
        "errors": {
            "generalErrors": [{"code": "[LoginPrevented]", "message": "Closed."}, {}],
            "fieldErrors": {"user.email": [{"message": "No."}, {"code": "[blocked]user.email", "data": {}}]},
        }
    }
    fields, general = rules.errors_of(result)
    assert fields == [
        FieldError("user.email", "[invalid]user.email", "No."),
        FieldError("user.email", "[blocked]user.email", "The request was refused."),
    ]
    assert general == [
        GeneralError("[LoginPrevented]", "Closed."),
        GeneralError("[invalid]", "The request was refused."),
    ]
    assert rules.errors_response(fields[:1], general[:1]) == {
        "fieldErrors": {"user.email": [{"code": "[invalid]user.email", "message": "No."}]},
        "generalErrors": [{"code": "[LoginPrevented]", "message": "Closed."}],
    }


@pytest.mark.parametrize("errors", [{}, None, {"generalErrors": None}, {"fieldErrors": {}, "generalErrors": []}])
def test_empty_errors_are_accepted(errors):
    assert rules.errors_of({"errors": errors}) == ([], [])
    assert rules.errors_of(rules.fresh_result()) == ([], [])


@pytest.mark.parametrize(
    "errors",
    [
        "no", [1], {"generalErrors": {}, "fieldErrors": {}}, {"generalErrors": ["no"]}, {"fieldErrors": []},
        {"fieldErrors": {"a": {}}}, {"fieldErrors": {"a": [5]}}, {"generalErrors": [{"code": 5}]},
        {"generalErrors": [{"message": {}}]},
    ],
)  # fmt: skip
def test_errors_of_another_shape_are_refused(errors):
    with pytest.raises(rules.ReturnedError):
        rules.errors_of({"errors": errors})


def test_number_of_errors_is_limited():
    many = {"generalErrors": [{}] * 500, "fieldErrors": {str(n): [{}] for n in range(500)}}
    assert [len(found) for found in rules.errors_of({"errors": many})] == [100, 100]
