"""Lambdas: JavaScript functions of administrators; validation, default lambdas, and invocation in the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import orjson

from identity.call import Call, Document
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.lambdas import lambdas as lambda_rules
from identity.domain.objects.resource_definition import Resource, SearchRules
from identity.errors import Duplicate, FieldError, Invalid, LambdaFailed
from identity.operations.groups import administrators
from identity.operations.lambdas.lambda_connection import LambdaConnection
from identity.operations.objects import crud, event_logs, references
from identity.sandbox.pool import InvocationResult
from identity.services import Services


async def prepare(services: Services, call: Call, document: Document, stored: Document | None) -> Document:
    """Validate the body by running it, and a change of type by the references.

    A lambda of an identity provider of the console requires all permissions: it decides about logins to it. Raises
    Invalid, Unavailable and Unauthorized.
    """
    if stored is not None:
        await _require_authority(services, call, stored["id"])
    errors = []
    kind, body = document.get("type"), document.get("body")
    if kind is not None and body is not None:
        errors += await _body_errors(services, kind, body)
    if kind is not None and stored is not None and kind != stored["type"]:
        errors += await _type_errors(services, call, stored["id"])
    crud.require_no_errors(errors)
    return document


RESOURCE = Resource(
    "lambda",
    tenant_scoped=False,
    search_rules=SearchRules(
        {"body": "text", "name": "text", "type": "exact"},
        {"engineType": "engineType", "id": "_id", "insertInstant": "insertInstant", "name": "name"},
    ),
    prepare=prepare,
)


async def add_defaults(services: Services, call: Call, ids: Mapping[str, str]) -> None:
    """Create the default lambdas that do not exist yet; `ids` are their ids by type."""
    await asyncio.gather(*(_add_default(services, call, kind, lambda_id) for kind, lambda_id in ids.items()))


async def _add_default(services: Services, call: Call, kind: str, lambda_id: str) -> None:
    lambda_ = {
        "body": lambda_rules.DEFAULT_BODIES[kind],
        "debug": False,
        "engineType": lambda_rules.ENGINE,
        "id": lambda_id,
        "name": lambda_rules.default_name(kind),
        "type": kind,
        **crud.creation_instants(call.now),
    }
    with contextlib.suppress(Duplicate):
        await services.configuration.lambdas.insert(None, lambda_)


async def retrieve_all(services: Services, kind: str | None) -> list[Document]:
    """All lambdas, or those of a type. Raises Invalid for an unknown type."""
    if kind and kind not in lambda_rules.FUNCTIONS:
        message = f"The [type] must be one of {', '.join(sorted(lambda_rules.FUNCTIONS))}."
        raise Invalid.field("couldNotConvert", "type", message)
    return await services.configuration.lambdas.find_all(None, {"type": kind} if kind else None)


async def reference_problems(services: Services, resource: str, document: Document) -> list[FieldError]:
    """A field error for each lambda of a tenant or application that does not exist or has another type."""
    errors = []
    for member, kind in lambda_rules.REFERENCES[resource].items():
        section, _, name = member.partition(".")
        lambda_id = document.get(section, {}).get(name)
        if lambda_id is not None and not await is_of_type(services, lambda_id, kind):
            path = f"{resource}.{member}"
            errors.append(FieldError.invalid(path, f"must name a lambda of type {kind}"))
    return errors


async def is_of_type(services: Services, lambda_id: str, kind: str) -> bool:
    """Whether the lambda exists and is of the type."""
    found = await services.configuration.lambdas.find_cached(None, lambda_id)
    return found is not None and found["type"] == kind


async def invoke(
    services: Services,
    call: Call,
    lambda_id: str,
    kind: str,
    *arguments: Any,
    context: Document | None = None,
) -> list[Any]:
    """Run a lambda and return its arguments (JSON values) as the function modified them.

    Their JSON types do not change: an object remains an object. `context` is the last argument of the function, which
    it cannot change. Without such a lambda of the type, the arguments are returned unchanged. Raises LambdaFailed after
    writing to the event log, and Unavailable if too many are queued.
    """
    lambda_ = await services.configuration.lambdas.find_cached(None, lambda_id)
    if lambda_ is None or lambda_["type"] != kind:
        return list(arguments)
    connection = LambdaConnection(services)
    outcome = await _run(services, kind, lambda_["body"], arguments, context, connection)
    for type_ in get_args(event_logs.Kind):
        lines = [text for letter, text in outcome.printed if letter == type_[0]]
        if lines and (type_ != "Debug" or lambda_["debug"]):
            text = connection.masked("\n".join(lines))
            await event_logs.record(services, call, type_, f"{_describe(lambda_)} printed:\n{text}")
    if outcome.result is None:
        problem = connection.masked(outcome.problem or "nothing was returned")
        raise await failure(services, call, lambda_, problem)
    try:
        return lambda_rules.returned(outcome.result, arguments)
    except lambda_rules.ReturnedError as error:
        raise await failure(services, call, lambda_, str(error)) from error


async def _run(
    services: Services,
    kind: str,
    body: str,
    arguments: Sequence[Any],
    context: Document | None,
    connection: LambdaConnection,
) -> InvocationResult:
    function = lambda_rules.FUNCTIONS[kind]
    given = orjson.dumps(arguments), orjson.dumps(context or {})
    return await services.runtime.lambda_runtime.sandbox.call(body, function, *given, connection.answer)


@dataclasses.dataclass(frozen=True, slots=True)
class TrialRun:
    """A test run: the arguments, what they became (None if the run failed), the problem, and the console output."""

    arguments: list[Any]
    returned: list[Any] | None
    problem: str
    printed: str


async def try_out(services: Services, kind: str, body: str, arguments: list[Any] | None) -> TrialRun:
    """Run a body on arguments, or on examples of its type. Raises Unavailable if too many are queued.

    After the arguments comes the context, which may be absent. Requests of the body are sent.
    """
    sample = lambda_rules.sample_arguments(kind)
    given, rest = (
        (sample if arguments is None else arguments)[: len(sample) - 1],
        (arguments or sample)[len(sample) - 1 :],
    )
    context = rest[0] if rest else {}
    connection = LambdaConnection(services)
    outcome = await _run(services, kind, body, given, context if isinstance(context, dict) else {}, connection)
    printed = connection.masked("".join(f"{text}\n" for _, text in outcome.printed))
    shown = [*given, context]
    if outcome.result is None:
        location = "" if outcome.line is None else f" (line {outcome.line})"
        problem = connection.masked(outcome.problem or "Nothing was returned.")
        return TrialRun(shown, None, f"{problem}{location}", printed)
    try:
        return TrialRun(shown, lambda_rules.returned(connection.masked(outcome.result), given), "", printed)
    except lambda_rules.ReturnedError as error:
        return TrialRun(shown, None, f"The result cannot be used: {error}.", printed)


async def log_failure(services: Services, call: Call, lambda_id: str, reason: str) -> LambdaFailed:
    """As `failure`, by the id of the lambda."""
    return await failure(services, call, await services.configuration.lambdas.get(None, lambda_id), reason)


async def failure(services: Services, call: Call, lambda_: Document, reason: str) -> LambdaFailed:
    """The error of a failed lambda, or of one with an unusable result; also written to the event log."""
    await event_logs.record(services, call, "Error", f"{_describe(lambda_)} failed: {reason}")
    return LambdaFailed("A lambda failed. The event log says how.", log_detail=f"lambda {lambda_['id']}")


def _describe(lambda_: Document) -> str:
    return f"The {lambda_['type']} lambda [{lambda_['name']}] with the id [{lambda_['id']}]"


async def _require_authority(services: Services, call: Call, lambda_id: str) -> None:
    where = {"lambdaConfiguration.reconcileId": lambda_id, "private.applicationIds": ADMINISTRATOR_APPLICATION_ID}
    if await services.configuration.identity_providers.find_where(None, where) is not None:
        administrators.require_all_permissions(call, ADMINISTRATOR_APPLICATION_ID)


async def _body_errors(services: Services, kind: str, body: str) -> list[FieldError]:
    outcome = await services.runtime.lambda_runtime.sandbox.check(body, lambda_rules.FUNCTIONS[kind])
    if outcome.problem is None:
        return []
    location = "" if outcome.line is None else f" in line {outcome.line}"
    reason = outcome.problem.partition("\n")[0]
    return [FieldError.of("invalid", "lambda.body", f"The [lambda.body] cannot be used: {reason}{location}.")]


async def _type_errors(services: Services, call: Call, lambda_id: str) -> list[FieldError]:
    """The type cannot change while the lambda is referenced: references to another type are not run."""
    try:
        await references.require_unreferenced(services, RESOURCE, lambda_id, call.now)
    except Invalid:
        message = "The [lambda.type] cannot be changed while a tenant, application or identity provider uses it."
        return [FieldError.of("inUse", "lambda.type", message)]
    return []
