"""Parsing of kickstart files and its error messages."""

from __future__ import annotations

import pytest

from identity.domain.objects.kickstart import Kickstart, Source
from identity.errors import StartupError

TENANT = "0b9d0a55-5a0e-4e0e-8a5c-0000000000aa"
FILES = {"loop.txt": "@{loop.txt}", "loop.yaml": "- '&{loop.yaml}'", "part.json": '["#{name}", "\\\\#{name}"]'}


def evaluated(text: str, **environ: str) -> Kickstart:
    def read(name: str) -> str:
        try:
            return FILES[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    source = Source(text, read, environ)
    return source.evaluated({"FUSIONAUTH_TENANT_ID": source.default_tenant_id or TENANT})


@pytest.mark.requirement("core-13-6", "core-13-7")
@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("apiKeys: []", "apiKeys must hold at least one key"),
        ("requests: []", "apiKeys must hold at least one key"),
        ("apiKeys: {}", "apiKeys must be a list"),
        ("[]", "the kickstart file must be a map"),
        ("apiKeys: [", "neither YAML nor JSON"),
        ('{"apiKeys": // comment\n []}', "neither YAML nor JSON"),
        ("apiKeys: [{description: x}]", "API key 1: key must be a text"),
        ("apiKeys: [{key: ' '}]", "API key 1: key must be a text"),
        ("apiKeys: [{key: abc, id: nonsense}]", "API key 1: the id [nonsense] must be a UUID"),
        ("apiKeys: [{key: abc, permissions: {endpoints: {/api/user: [GET]}}}]", "global and unrestricted"),
        (f"apiKeys: [{{key: abc, tenantId: {TENANT}}}]", "global and unrestricted"),
        (f"apiKeys: [{{key: abc, ipAccessControlListId: {TENANT}}}]", "global and unrestricted"),
        ("apiKeys: [{key: abc, expirationInstant: 1}]", "global and unrestricted"),
        ("apiKeys: [{key: abc}]\nrequests: [5]", "request 1 must be a map"),
        ("apiKeys: [{key: abc}]\nrequests: [{method: GET, url: /api/user}]", "request 1: the method [GET]"),
        ("apiKeys: [{key: abc}]\nrequests: [{method: POST, url: 'http://x/api'}]", "request 1: the url"),
        ("apiKeys: [{key: abc}]\nrequests: [{method: POST, url: '//x/api'}]", "request 1: the url"),
        ("apiKeys: [{key: abc}]\nrequests: [{method: POST, url: ''}]", "request 1: the url"),
        ("apiKeys: [{key: abc}]\nsettings: {readTimeout: true}", "settings.readTimeout must be a number"),
        (
            "apiKeys: [{key: abc}]\nrequests: [{method: POST, url: /a, body: {a: !!set {b}}}]",
            "cannot be written as JSON",
        ),
        ("apiKeys: [{key: abc}]\nrequests: [{method: POST, url: /a, body: .nan}]", "cannot be written as JSON"),
        ("apiKeys: [{key: abc}]\nsettings: {readTimeout: soon}", "settings.readTimeout must be a number"),
        ("apiKeys: [{key: '#{unknown}'}]", "there is no variable [unknown]"),
        ("apiKeys: [{key: '#{ENV.NO_SUCH_NAME}'}]", "there is no variable [ENV.NO_SUCH_NAME]"),
        ("apiKeys: [{key: '@{nothing.txt}'}]", "the included file [nothing.txt] cannot be read"),
        ("apiKeys: [{key: '@{loop.txt}'}]", "included in itself"),
        ("apiKeys: ['&{loop.yaml}']", "included in itself"),
        ("variables: {defaultTenantId: nonsense}\napiKeys: [{key: abc}]", "defaultTenantId must be a UUID"),
    ],
)
def test_errors_name_their_position(text: str, position: str) -> None:
    with pytest.raises(StartupError) as refused:
        evaluated(text)
    assert position in str(refused.value)


def test_variable_values_are_not_evaluated_again() -> None:
    """What the environment holds is data: it reads no files and no other variables."""
    found = evaluated(
        "variables: {a: '#{ENV.A}'}\napiKeys: [{key: k, name: '#{a}'}]", A="@{part.json} #{a} &{part.json}"
    )
    assert found.api_keys[0]["name"] == "@{part.json} #{a} &{part.json}"


@pytest.mark.requirement("core-13-2", "core-13-9")
def test_variables_are_evaluated_once_in_order() -> None:
    text = "variables: {b: '#{UUID()}', a: '#{b}-#{b}'}\napiKeys: [{key: k, name: '#{a}'}]"
    name = evaluated(text).api_keys[0]["name"]
    assert name[:36] == name[37:]


@pytest.mark.requirement("core-13-10")
def test_expressions_in_included_values_are_evaluated() -> None:
    text = "variables: {name: x}\napiKeys: [{key: k}]\nrequests: [{method: post, url: /a, body: '&{part.json}'}]"
    assert evaluated(text).requests[0].body == ["x", "#{name}"]
    assert evaluated(text).requests[0].method == "POST"


@pytest.mark.requirement("core-13-8", "service-1")
def test_json_and_yaml_are_equivalent() -> None:
    as_json = (
        '{"apiKeys": [{"key": "k"}], "requests": [{"method": "PUT", "url": "/a", "tenantId": "t", "body": {"a": 1}}]}'
    )
    as_yaml = "apiKeys: [{key: k}]\nrequests: [{method: PUT, url: /a, tenantId: t, body: {a: 1}}]"
    assert evaluated(as_json) == evaluated(as_yaml)


@pytest.mark.requirement("audit-b5-kickstart")
def test_leading_slash_is_optional_and_timeouts_may_be_text() -> None:
    text = "apiKeys: [{key: k}]\nsettings: {readTimeout: '9000'}\nrequests: [{method: POST, url: api/user, body: {}}]"
    assert evaluated(text).requests[0].url == "/api/user"
    assert evaluated(text).read_timeout == 9000


def test_yaml_dates_and_words_remain_strings() -> None:
    text = "apiKeys: [{key: k}]\nrequests: [{method: POST, url: /a, body: {birthDate: 1990-02-03, n: null}}]"
    assert evaluated(text).requests[0].body == {"birthDate": "1990-02-03", "n": None}
