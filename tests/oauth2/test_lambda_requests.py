"""Requests and secrets of lambdas: `fetch` through the address guard, its limits, and keys of type Secret."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import pytest

from identity import app
from identity.errors import LambdaFailed
from identity.ids import new_id
from identity.operations.lambdas import lambdas
from identity.operations.lambdas.lambda_connection import LambdaConnection
from tests import internals
from tests.oauth2.test_lambdas import call_of, hook, lambda_log, make, rp, token_response
from tests.receiver import Receiver, answers, drips, hangs, in_turn, receiving
from tests.relying_party import RelyingParty, claims

__all__ = ["rp"]

Document = dict[str, Any]
BAD_HEADERS = '{"fetch": {"method": "GET", "url": "http://127.0.0.1/", "headers": [["a"]]}}'
JSON = ["Content-Type: application/json"]


async def run(rp: RelyingParty, service: app.Service, statements: str, **given: Any) -> Document:
    """Run a lambda of these statements on `it`, and return what it becomes."""
    made = await make(rp, "JWTPopulate", "it, context", statements)
    call = call_of(service, rp)
    returned = await internals.run(service, lambdas.invoke, call, made["id"], "JWTPopulate", given)
    return dict(returned[0])


async def refusal(rp: RelyingParty, service: app.Service, statements: str, **given: Any) -> str:
    """Return the message of the exception that the statements get."""
    it = await run(rp, service, f"try {{ {statements} }} catch (error) {{ it.error = error.message }}", **given)
    return str(it["error"])


async def make_secret(rp: RelyingParty, value: str, **members: str) -> str:
    name = f"secret {new_id()}"
    key = {"name": name, "type": "Secret", "secret": value, **members}
    answer = await rp.api.post("/api/key/import", json={"key": key})
    assert answer.status_code == 200, answer.text
    return name


@pytest.mark.requirement("core-18-lambdas-30")
async def test_token_has_a_claim_that_the_lambda_fetched(rp, http):
    async with receiving(answers(200, b'{"status": "gold"}', JSON)) as receiver:
        await hook(
            rp,
            "accessTokenPopulateId",
            f"const response = fetch('{receiver.url}?' + user.id, {{headers: {{'X-Key': 'k'}}}});"
            "jwt.plan = JSON.parse(response.body).status; jwt.seen = [response.status, response.headers]",
        )
        token = claims((await token_response(rp, http))["access_token"])
    assert token["plan"] == "gold"
    assert token["seen"] == [200, {"content-length": "18", "content-type": "application/json"}]
    (request,) = receiver.requests
    assert (request.method, request.path, request.body) == ("GET", f"/hook?{rp.user['id']}", b"")
    assert request.headers.keys() == {"host", "user-agent", "x-key"}


@pytest.mark.requirement("core-18-lambdas-30")
@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", "JSON.stringify({id: 'ü'})", '{"id":"ü"}'),
        ("application/x-www-form-urlencoded", "'id=' + encodeURIComponent('ü&')", "id=%C3%BC%26"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "put", "PATCH", "DELETE"])
async def test_body_is_sent_as_it_is(rp, service, receiver, method, content_type, body, expected):
    options = f"{{method: '{method}', headers: {{'content-type': '{content_type}'}}, body: {body}}}"
    await run(rp, service, f"fetch(it.url, {options})", url=receiver.url)
    (request,) = receiver.requests
    assert (request.method, request.body.decode()) == (method.upper(), expected)
    assert request.headers["content-type"] == content_type


@pytest.mark.requirement("core-18-lambdas-31")
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data", "cloud metadata"),
        ("http://metadata.google.internal/", "cloud metadata"),
        ("http://10.0.0.1/", "lambdas.allowed_networks can let it through"),
        ("http://[::1]:{port}/", "lambdas.allowed_networks can let it through"),
        ("http://2130706433:{port}/", "four decimal numbers"),
        ("http://127.0.0.1:6379/", "port 6379 belongs to another kind of service"),
        ("http://user:password@127.0.0.1:{port}/", "user information"),
        ("file:///etc/passwd", "not an absolute http or https URL"),
        ("//127.0.0.1:{port}/", "not an absolute http or https URL"),
        ("gopher://127.0.0.1:{port}/", "not an absolute http or https URL"),
        ("http://127.0.0.1:{port}/ HTTP/1.1\\r\\nX: y", "percent-encode"),
    ],
)
async def test_attack_address_guard_applies_to_lambdas(rp, service, receiver, url, reason):
    statements = f'fetch("{url.format(port=receiver.port)}")'
    assert reason in await refusal(rp, service, statements)
    assert receiver.requests == []


@pytest.mark.requirement("core-18-lambdas-31")
async def test_attack_redirects_are_returned_and_not_followed(rp, service, receiver):
    receiver.behaviour = answers(302, headers=[f"Location: {receiver.url}/other"])
    it = await run(rp, service, "const r = fetch(it.url); it.seen = [r.status, r.headers.location]", url=receiver.url)
    assert it["seen"] == [302, f"{receiver.url}/other"]
    assert len(receiver.requests) == 1


@pytest.mark.requirement("core-18-lambdas-31")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("{method: 'GET / HTTP/1.1\\r\\nX: y'}", "the method must be one of"),
        ("{method: 'CONNECT'}", "the method must be one of"),
        ("{headers: {a: 'b\\r\\nc: d'}}", "The header 'a' cannot be sent"),
        ("{headers: {'a b': 'c'}}", "The header 'a b' cannot be sent"),
        ("{headers: {Host: 'internal'}}", "the header Host cannot be set"),
        ("{headers: {'Transfer-Encoding': 'chunked'}}", "the header Transfer-Encoding cannot be set"),
        ("{headers: {'content-length': '0'}, body: 'x'}", "the header content-length cannot be set"),
        ("{headers: {'Proxy-Authorization': 'x'}}", "the header Proxy-Authorization cannot be set"),
        ("{headers: {a: 'x'.repeat(20000)}}", "the headers are larger than 16384 bytes"),
        ("{method: 'POST', body: 'ü'.repeat(131073)}", "the body is larger than 262144 bytes"),
        ("{method: 'POST', body: 'x'.repeat(1000000)}", "the request is too large"),
        ("{connectTimeout: 0}", "the connectTimeout must be a positive number"),
        ("{readTimeout: 'soon'}", "the readTimeout must be a positive number"),
        ("{readTimeout: true}", "the readTimeout must be a positive number"),
        ("{headers: {a: '\\ud800'}}", "the request is not valid"),
    ],
)
async def test_attack_invalid_requests_are_not_sent(rp, service, receiver, options, reason):
    assert reason in await refusal(rp, service, f"fetch(it.url, {options})", url=receiver.url)
    assert receiver.requests == []


@pytest.mark.requirement("core-18-lambdas-31")
async def test_attack_questions_of_other_forms_have_no_answer(service):
    """A lambda may change the built-in functions that `fetch` uses."""
    connection = LambdaConnection(service.services)
    for question in (
        "",
        "[]",
        "null",
        "5",
        '"secret"',
        "{}",
        '{"fetch": {}}',
        '{"fetch": {"method": 5}}',
        "{",
        BAD_HEADERS,
    ):
        assert json.loads(await connection.answer(question)) == {"error": "the request is not valid"}
    for secret in ("null", "5", "{}", '{"$ne": null}', "[]"):
        answer = await connection.answer(f'{{"secret": {secret}}}')
        assert json.loads(answer) == {"error": "the request is not valid"}


@pytest.mark.requirement("core-18-lambdas-31")
async def test_sixth_request_of_a_call_is_refused(rp, service, receiver):
    statements = "it.seen = []; for (let i = 0; i < 7; i++) it.seen.push(fetch(it.url).status)"
    message = await refusal(rp, service, statements, url=receiver.url)
    assert message == "a lambda may send at most 5 requests"
    assert len(receiver.requests) == 5


@pytest.mark.requirement("core-18-lambdas-31")
async def test_huge_response_is_refused(rp, service, receiver):
    receiver.behaviour = answers(200, b"x" * 262_145)
    assert await refusal(rp, service, "fetch(it.url)", url=receiver.url) == ("the response is larger than 262144 bytes")
    receiver.behaviour = drips(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000, 0)
    assert "larger" in await refusal(rp, service, "fetch(it.url)", url=receiver.url)
    receiver.behaviour = answers(200, b"\xff" * 10)
    assert (await run(rp, service, "it.body = fetch(it.url).body", url=receiver.url))["body"] == "\ufffd" * 10


@pytest.mark.requirement("core-18-lambdas-31")
async def test_slow_server_exceeds_the_timeout_of_the_request(rp, service, receiver):
    receiver.behaviour = in_turn(hangs, drips(b"HTTP/1.1 200 OK\r\n\r\n", b"x"))
    for _ in range(2):
        message = await refusal(rp, service, "fetch(it.url, {readTimeout: 40})", url=receiver.url)
        assert message == "there is no response: No complete response within 40 milliseconds"


@pytest.mark.requirement("core-18-lambdas-31")
async def test_time_of_all_requests_together_is_limited_whatever_timeouts_they_choose(service, receiver):
    receiver.behaviour = in_turn(answers(200), hangs)
    connection = LambdaConnection(service.services)
    connection._settings = dataclasses.replace(connection._settings, fetch_total_ms=5000)
    connection._seconds_left = 0.2
    request = {"method": "GET", "url": receiver.url, "headers": [], "readTimeout": 10**9, "connectTimeout": 10**9}
    answered = [json.loads(await connection.answer(json.dumps({"fetch": request}))) for _ in range(3)]
    assert answered[0]["status"] == 200
    assert [answer["error"] for answer in answered[1:]] == 2 * ["the requests took more than 5000 ms together"]
    assert len(receiver.requests) == 2, "the third is not sent"


async def test_failed_request_leaves_the_token_unmodified(rp, http, service, receiver):
    made = await hook(rp, "accessTokenPopulateId", "jwt.half = true; fetch('http://10.0.0.1/')")
    assert "half" not in claims((await token_response(rp, http))["access_token"])
    ((kind, text),) = await lambda_log(service, made)
    assert kind == "Error"
    assert "failed: Error: there is no response: The URL may not be called" in text


async def test_lambda_that_fetches_can_be_saved_but_sends_nothing_then(rp, receiver):
    await make(rp, "JWTPopulate", "jwt", f"fetch('{receiver.url}')")
    body = f"var early = fetch('{receiver.url}'); function populate() {{}}"
    answer = await rp.api.post("/api/lambda", json={"lambda": {"name": new_id(), "type": "JWTPopulate", "body": body}})
    assert answer.status_code == 400
    assert "requests are only sent when the lambda is called" in answer.text
    assert receiver.requests == []


async def test_requests_of_two_tenants_at_once_do_not_mix(rp, service):
    async def echo(request: Any, writer: asyncio.StreamWriter) -> None:
        await answers(200, request.path.encode())(request, writer)

    async with receiving(echo) as receiver:
        made = await make(rp, "JWTPopulate", "it", "it.path = fetch(it.url).body")
        call = call_of(service, rp)
        results = await asyncio.gather(
            *(
                internals.run(
                    service, lambdas.invoke, call, made["id"], "JWTPopulate", {"url": f"{receiver.url}/{number}"}
                )
                for number in range(64)
            )
        )
    assert [it["path"] for (it,) in results] == [f"/hook/{number}" for number in range(64)]


# Secrets


@pytest.mark.requirement("core-18-lambdas-32")
async def test_secret_is_sent_and_appears_in_no_log(rp, http, service, receiver):
    value = f"very-{new_id()}"
    name = await make_secret(rp, value)
    made = await hook(
        rp,
        "accessTokenPopulateId",
        f"const secret = context.services.secrets.get('{name}');"
        f"fetch('{receiver.url}', {{headers: {{authorization: 'Bearer ' + secret}}}});"
        "console.info('with ' + secret); throw new Error('after ' + secret)",
    )
    await token_response(rp, http)
    assert receiver.requests[0].headers["authorization"] == f"Bearer {value}"
    log = await lambda_log(service, made)
    assert [kind for kind, _ in log] == ["Information", "Error"]
    assert "with ***" in log[0][1]
    assert "after ***" in log[1][1]
    assert value not in str(log)


@pytest.mark.requirement("core-18-lambdas-32")
async def test_only_keys_of_type_secret_are_readable(rp, service):
    hmac = {"name": f"hmac {new_id()}", "type": "HMAC", "algorithm": "HS256", "secret": "x" * 32}
    assert (await rp.api.post("/api/key/import", json={"key": hmac})).status_code == 200
    it = await run(
        rp,
        service,
        "it.seen = [context.services.secrets.get(it.name), context.services.secrets.get('none')]",
        name=hmac["name"],
    )
    assert it["seen"] == [None, None]


async def test_number_of_secrets_of_a_call_is_limited(rp, service):
    statements = "for (let i = 0; i < 21; i++) context.services.secrets.get('none ' + i)"
    assert await refusal(rp, service, statements) == "a lambda may read at most 20 secrets"


async def test_changed_secret_is_used_by_the_next_call(rp, service, receiver: Receiver):
    name = await make_secret(rp, "first value")
    statements = f"it.seen = context.services.secrets.get('{name}')"
    assert (await run(rp, service, statements))["seen"] == "first value"
    found = (await rp.api.post("/api/key/search", json={"search": {"name": name}})).json()["keys"]
    assert (await rp.api.delete(f"/api/key/{found[0]['id']}")).status_code == 200
    with pytest.raises(LambdaFailed):
        await run(rp, service, f"{statements}.length")
