"""The example lambdas of the published documentation, with the inputs that their pages describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from identity.domain.lambdas import lambdas as rules
from identity.sandbox.pool import Sandbox
from tests.sandbox.test_sandbox import LIMITS, limits

EXAMPLES = yaml.safe_load(Path(__file__).with_name("published_examples.yaml").read_text("utf-8"))["examples"]
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "lambdas.md"


@pytest.fixture(scope="module")
async def sandbox():
    running = Sandbox(limits(fetch_limit_bytes=LIMITS.output_limit_bytes))
    yield running
    await running.close()


class Service:
    """The service, as a lambda sees it: its secrets, and the responses of the servers that it sends requests to."""

    def __init__(self, example: dict[str, Any]) -> None:
        self._example = example
        self.sent: list[dict[str, Any]] = []

    async def answer(self, question: str) -> bytes:
        asked = json.loads(question)
        if "secret" in asked:
            return json.dumps({"secret": self._example["secrets"][asked["secret"]]}).encode()
        self.sent.append(asked["fetch"])
        status, body = self._example["responses"][asked["fetch"]["url"]]
        return json.dumps({"status": status, "headers": {}, "body": body}).encode()


@pytest.mark.requirement("core-18-lambdas-34")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
async def test_published_example_runs(sandbox, example):
    function, service = rules.FUNCTIONS[example["type"]], Service(example)
    checked = await sandbox.check(example["body"], function)
    assert checked.problem is None
    given, context = json.dumps(example["given"]).encode(), json.dumps(example.get("context", {})).encode()
    outcome = await sandbox.call(example["body"], function, given, context, service.answer)
    assert outcome.problem is None, outcome.problem
    assert json.loads(outcome.result) == example.get("expected", example["given"])
    assert outcome.printed == example.get("printed", [])
    assert service.sent == example.get("sent", service.sent)
    assert len(rules.returned(outcome.result, example["given"])) == len(example["given"])


@pytest.mark.requirement("core-18-lambdas-34")
def test_documentation_lists_each_example_with_its_result():
    rows = [line for line in DOCUMENTATION.read_text("utf-8").splitlines() if line.startswith("| ")]
    missing = [
        row
        for row in (
            f"| {example['name']} | {example['type']} | {example.get('result', 'runs')} |" for example in EXAMPLES
        )
        if row not in rows
    ]
    assert missing == []


@pytest.mark.parametrize("kind", sorted(rules.FUNCTIONS))
async def test_function_of_each_type_gets_the_arguments_of_its_sample_and_the_context_last(sandbox, kind):
    *given, context = rules.sample_arguments(kind)
    function = rules.FUNCTIONS[kind]
    body = f"function {function}() {{ console.info(arguments.length, arguments[arguments.length - 1]) }}"
    arguments = json.dumps(given).encode(), json.dumps(context).encode()
    outcome = await sandbox.call(body, function, *arguments, Service({}).answer)
    assert outcome.printed == [["I", f"{len(given) + 1} {json.dumps(context, separators=(',', ':'))}"]]
    assert json.loads(outcome.result) == given


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("JWTPopulate", 'function populate() { return {"content-type": "a"\n"authorization": "b"}; }'),
        ("LDAPConnectorReconcile", "function reconcile(user) { user.registrations = [{roles = ['user']}]; }"),
        ("OpenIDReconcile", "function(user, registration, jwt) { user.email = jwt.sub; }"),
    ],
)
async def test_mistakes_of_the_published_examples_are_reported_when_they_are_saved(sandbox, kind, body):
    checked = await sandbox.check(body, rules.FUNCTIONS[kind])
    assert checked.problem.startswith("SyntaxError")
