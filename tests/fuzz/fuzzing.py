"""Requests by the thousand, made up from an OpenAPI document, and what must hold for every answer.

Hypothesis makes them, in the order of a seed; ids that the service handed out are put in where ids belong, so that the
requests meet objects. What the fuzzer lives by, its keys and its tenants, is read and never changed.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import random
import re
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

import httpx
import hypothesis
import requests
import schemathesis
from hypothesis import strategies
from schemathesis import GenerationMode
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi import checks

from tests import openapi
from tests.fuzz.known_values import KnownValues

Document = dict[str, Any]

CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]

ALLOWED_FAILURES = {503, 504, 512}
"""A busy store, a veto, a failing lambda: reported in the published shape."""

_EACH = 8
_MEMBERS = 5
_IN_REQUESTS = re.compile(r"(Input|Patch|Request|Form)$")
_VALUES = {"const", "default", "enum", "required"}
_CHANGES = {"POST", "PUT", "PATCH", "DELETE"}


@dataclasses.dataclass
class Report:
    """What a run did and found."""

    seed: int
    statuses: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    operations: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    well: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    failures: dict[str, str] = dataclasses.field(default_factory=dict)
    slowest: tuple[float, str] = (0.0, "")

    @property
    def count(self) -> int:
        return sum(self.statuses.values())

    def __str__(self) -> str:
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))
        never = sorted(self.operations.keys() - self.well.keys())
        return "\n".join(
            [
                f"seed {self.seed}: {self.count} requests, {len(self.operations)} operations ({statuses})",
                f"the slowest took {self.slowest[0]:.1f} s: {self.slowest[1]}",
                f"never went well: {', '.join(never) or 'none'}",
                *(f"FAILED {name}: {what}" for name, what in self.failures.items()),
            ]
        )


class Fuzzer:
    """One run over the operations of a document."""

    def __init__(
        self,
        base_url: str,
        headers_for: Callable[[str], dict[str, str]],
        protected: set[str],
        seed: int,
    ) -> None:
        self._base_url = base_url
        self._headers_for = headers_for
        self._protected = protected
        self._session = requests.Session()
        self._session.trust_env = False
        self.known = KnownValues()
        self.report = Report(seed)

    def run(self, document: Document, count: int, check_event: Judge) -> None:
        """Send so many requests, spread evenly over operations, good ones and bad ones.

        Every round makes its requests from a few of the members of each object: large objects are slow to make up.
        """
        goal = self.report.count + count
        for number in range(10 * count):
            rng = random.Random(f"{self.report.seed} {number}")
            operations = [
                found.ok() for found in schemathesis.openapi.from_dict(thinned(document, rng)).get_all_operations()
            ]
            operations.sort(key=lambda operation: (_order(operation), operation.path))
            each = min(_EACH, max(1, (goal - self.report.count) // (2 * len(operations))))
            for operation in operations:
                for mode in _modes(operation):
                    if self.report.count >= goal:
                        return
                    self._some(operation, mode, min(each, goal - self.report.count), number, check_event)

    def _some(self, operation: APIOperation, mode: GenerationMode, count: int, number: int, check_event: Judge) -> None:
        cases = operation.as_strategy(generation_mode=mode)

        @hypothesis.seed(f"{self.report.seed} {operation.label} {mode} {number}")
        @hypothesis.settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(cases, strategies.integers(0, 2**32))
        def send(case: schemathesis.Case, chance: int) -> None:
            self._send(case, random.Random(chance), check_event)

        # A schema that takes everything has no bad examples.
        with contextlib.suppress(hypothesis.errors.Unsatisfiable):
            send()

    def _send(self, case: schemathesis.Case, rng: random.Random, check_event: Judge) -> None:
        self._put_in_known(case, rng)
        if case.method.upper() in _CHANGES and self._touches_protected(case):
            return
        began = time.monotonic()
        try:
            answer = case.call(
                base_url=self._base_url, session=self._session, headers=self._headers(case, rng), timeout=30,
                allow_redirects=False,
            )  # fmt: skip
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeError):
            return  # no request at all
        except requests.exceptions.RequestException as error:
            self._fail(case, f"no answer: {error!r}")
            return
        self._note(case, answer, time.monotonic() - began)
        problem = check_event(case, answer)
        if problem is not None:
            self._fail(case, f"{answer.status_code}: {problem}")

    def _headers(self, case: schemathesis.Case, rng: random.Random) -> dict[str, str]:
        """The credentials win over what was made up, and so does the tenant, nearly always."""
        made_up = {"authorization", "cookie"} | ({"x-fusionauth-tenantid"} if rng.random() < 0.95 else set())
        for name in list(case.headers or {}):
            if name.lower() in made_up:
                del case.headers[name]
        if case.path.endswith("/oauth2/userinfo") and self.known.of("access_token"):
            return {"Authorization": f"Bearer {self.known.of('access_token')[-1]}"}
        given = {name.lower() for name in case.headers or {}}
        return {name: value for name, value in self._headers_for(case.path).items() if name.lower() not in given}

    def _put_in_known(self, case: schemathesis.Case, rng: random.Random) -> None:
        for name in case.path_parameters or {}:
            if self.known.of(name) and rng.random() < 0.8:
                case.path_parameters[name] = rng.choice(self.known.of(name))
        for name in case.query or {}:
            if self.known.of(name) and rng.random() < 0.5:
                case.query[name] = rng.choice(self.known.of(name))
        if isinstance(case.body, dict | list):
            # The body may be an example of the document, which other tests use as well.
            case.body = copy.deepcopy(case.body)
            self.known.fill(case.body, rng)

    def _touches_protected(self, case: schemathesis.Case) -> bool:
        where = urllib.parse.unquote(case.formatted_path).lower()
        return any(name in where for name in self._protected)

    def _note(self, case: schemathesis.Case, answer: schemathesis.Response, seconds: float) -> None:
        label = case.operation.label
        self.report.statuses[answer.status_code] += 1
        self.report.operations[label] += 1
        self.report.slowest = max(self.report.slowest, (seconds, label))
        if answer.status_code < 300:
            self.report.well[label] += 1
            if answer.headers.get("content-type", [""])[0].startswith("application/json"):
                self.known.remember(answer.json())

    def _fail(self, case: schemathesis.Case, problem: str) -> None:
        """One failure of each kind, with what repeats it."""
        name = f"{case.operation.label} {problem[:60]}"
        if name not in self.report.failures and len(self.report.failures) < 50:
            self.report.failures[name] = f"{problem}\n    {_curl(case)}"
            print(f"FAILED {name}: {self.report.failures[name]}", flush=True)


Judge = Callable[[schemathesis.Case, schemathesis.Response], str | None]


def of_ours(case: schemathesis.Case, answer: schemathesis.Response) -> str | None:
    """What breaks a promise of our document, in the eyes of schemathesis and in ours."""
    problem = of_everything(case, answer)
    if problem is not None or _matched(answer) != case.operation.path:
        return problem  # an id that was made up may lead elsewhere
    promised = case.operation.definition.raw["responses"].get(str(answer.status_code), {})
    if not answer.content and promised.get("x-may-be-empty"):
        return None  # which schemathesis cannot know
    try:
        case.validate_response(answer, checks=CHECKS)
    except FailureGroup as group:
        return "; ".join(str(failure) for failure in group.exceptions)
    except Failure as failure:
        return str(failure)
    return None


def of_everything(case: schemathesis.Case, answer: schemathesis.Response) -> str | None:
    """What no request may be answered with, whichever document it was made from."""
    if answer.status_code >= 500 and answer.status_code not in ALLOWED_FAILURES:
        return "the service failed"
    path = _matched(answer)
    if path is None:
        return None if (answer.status_code, answer.content) == (404, b"") else "an answer without a route"
    headers = {name: values[0] for name, values in answer.headers.items()}
    headers.pop("content-encoding", None)
    sent = httpx.Request(case.method, str(answer.request.url), headers=dict(answer.request.headers))
    shown = httpx.Response(answer.status_code, content=answer.content, headers=headers, request=sent)
    return openapi.problem_of(path, case.method.lower(), shown)


def _matched(answer: schemathesis.Response) -> str | None:
    return openapi.path_of(urllib.parse.urlsplit(str(answer.request.url)).path)


def thinned(document: Document, rng: random.Random) -> Document:
    """The document with only some of the optional members of the objects in its requests.

    Credentials are left out, too: made-up ones would only ever be refused, which is tested elsewhere.
    """
    components = document["components"]
    schemas = components["schemas"].items()
    thin = {name: _thinned(node, rng) if _IN_REQUESTS.search(name) else node for name, node in schemas}
    paths = {
        path: {
            method: {name: about for name, about in operation.items() if name != "security"}
            for method, operation in methods.items()
        }
        for path, methods in document["paths"].items()
    }
    return {**document, "paths": paths, "components": {**components, "schemas": thin, "securitySchemes": {}}}


def _thinned(node: Any, rng: random.Random) -> Any:
    if isinstance(node, list):
        return [_thinned(item, rng) for item in node]
    if not isinstance(node, dict):
        return node
    thin = {name: value if name in _VALUES else _thinned(value, rng) for name, value in node.items()}
    members = thin.get("properties")
    if isinstance(members, dict):
        optional = sorted(members.keys() - set(thin.get("required", ())))
        left_out = set(rng.sample(optional, max(0, len(optional) - _MEMBERS)))
        thin["properties"] = {name: member for name, member in members.items() if name not in left_out}
    return thin


def _modes(operation: APIOperation) -> tuple[GenerationMode, ...]:
    """The parameters of the protocols are texts, all of them optional: there are no bad ones to be made up."""
    if operation.path.startswith("/api/") and _has_bad_examples(operation):
        return (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    return (GenerationMode.POSITIVE,)


def _has_bad_examples(operation: APIOperation) -> bool:
    """Whether a request can break the schema. Hypothesis makes hundreds of attempts before it gives up."""
    return bool(operation.body or operation.query) or any(
        parameter.definition.get("schema") != {"type": "string"} for parameter in operation.iter_parameters()
    )


def _order(operation: APIOperation) -> int:
    """Objects are made first and removed last."""
    return {"POST": 0, "GET": 1, "PUT": 2, "PATCH": 3, "DELETE": 4}[operation.method.upper()]


def _curl(case: schemathesis.Case) -> str:
    return case.as_curl_command()[:2000]
