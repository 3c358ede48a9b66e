"""Lambdas for tokens and userinfo: added claims, reserved claims, and failures."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from identity import app
from identity.call import AnonymousCaller, Call, Origin
from identity.domain.lambdas import lambdas as rules
from identity.errors import LambdaFailed, Unavailable
from identity.ids import TenantId, new_id
from identity.operations.lambdas import lambdas, login_validation_lambdas, token_lambdas
from tests import internals, relying_party
from tests.receiver import receiving
from tests.relying_party import PASSWORD, RelyingParty, claims, header, page, response
from tests.subscriber import check_event
from tests.webhooks import subscribe

Document = dict[str, Any]

MEMBERS = {
    "accessTokenPopulateId": ("JWTPopulate", "jwt, user, registration, context"),
    "idTokenPopulateId": ("JWTPopulate", "jwt, user, registration, context"),
    "userinfoPopulateId": ("UserInfoPopulate", "userInfo, user, registration, jwt, context"),
    "selfServiceRegistrationValidationId": (
        "SelfServiceRegistrationValidation",
        "result, user, registration, form, context",
    ),
    "loginValidationId": ("LoginValidation", "result, user, registration, context"),
}
ENDLESS = "for (;;);"


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """A relying party that may use the password grant, which is the shortest way to a token."""
    return await relying_party.make(api, enabledGrants=["authorization_code", "implicit", "password", "refresh_token"])


def call_of(service: app.Service, rp: RelyingParty) -> Call:
    origin = Origin("203.0.113.7", "the agent", "", service.base_url)
    return Call(TenantId(rp.tenant["id"]), AnonymousCaller(), internals.now(service), origin)


async def make(rp: RelyingParty, kind: str, parameters: str, statements: str, **members: Any) -> Document:
    source = f"function {rules.FUNCTIONS[kind]}({parameters}) {{ {statements} }}"
    wanted = {"name": f"Lambda {new_id()}", "type": kind, "body": source, **members}
    answer = await rp.api.post("/api/lambda", json={"lambda": wanted})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["lambda"])


async def hook(rp: RelyingParty, member: str, statements: str, **members: Any) -> Document:
    """Make a lambda of these statements, and let application or tenant use it."""
    made = await make(rp, *MEMBERS[member], statements, **members)
    configuration = {"lambdaConfiguration": {member: made["id"]}}
    if member == "loginValidationId":
        await rp.configure_tenant(**configuration)
    else:
        await rp.patch(f"/api/application/{rp.client_id}", {"application": configuration})
    return made


async def token_request(rp: RelyingParty, http: httpx.AsyncClient, **form: str | None) -> httpx.Response:
    return await rp.token(http, **{"grant_type": "password", "username": rp.login_id, "password": PASSWORD, **form})


async def token_response(rp: RelyingParty, http: httpx.AsyncClient, **form: str | None) -> Document:
    answer = await token_request(rp, http, **form)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def userinfo(http: httpx.AsyncClient, token: str) -> httpx.Response:
    return await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})


async def lambda_log(service: app.Service, lambda_: Document) -> list[tuple[str, str]]:
    """(type, message) of what the event log says of a lambda."""
    found = internals.database(service).collection("event_logs").find({"message": {"$regex": lambda_["id"]}})
    return [(row["type"], row["message"]) async for row in found.sort("_id", 1)]


# Tokens


@pytest.mark.requirement("core-18-lambdas-12")
async def test_access_and_id_tokens_have_separate_lambdas(rp, http):
    await hook(rp, "accessTokenPopulateId", "jwt.colour = 'blue'; jwt.list = [1, {a: null}]")
    tokens = await token_response(rp, http, scope="openid")
    assert claims(tokens["access_token"])["colour"] == "blue"
    assert claims(tokens["access_token"])["list"] == [1, {"a": None}]
    assert "colour" not in claims(tokens["id_token"])
    await hook(rp, "idTokenPopulateId", "jwt.colour = 'green'; delete jwt.at_hash")
    tokens = await token_response(rp, http, scope="openid")
    assert claims(tokens["access_token"])["colour"] == "blue"
    assert claims(tokens["id_token"])["colour"] == "green"
    assert "at_hash" not in claims(tokens["id_token"])


@pytest.mark.requirement("core-18-lambdas-12")
async def test_every_grant_runs_the_lambda(rp, http, browser, api):
    await hook(rp, "accessTokenPopulateId", "jwt.way = jwt.authenticationType")
    await hook(rp, "idTokenPopulateId", "jwt.way = 'id'")
    code = await rp.tokens(http, browser)
    assert claims(code["access_token"])["way"] == "PASSWORD"
    refreshed = (await rp.refresh(http, code["refresh_token"])).json()
    assert claims(refreshed["access_token"])["way"] == "REFRESH_TOKEN"
    assert claims(refreshed["id_token"])["way"] == "id"
    answer = await rp.authorize(browser, response_type="id_token token", nonce="n")
    assert claims(response(answer)["access_token"])["way"] == "PING"
    assert claims(response(answer)["id_token"])["way"] == "id"
    body = {
        "user": {"username": new_id(), "password": PASSWORD},
        "registration": {"applicationId": rp.client_id},
    }
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    made = (await api.post("/api/user/registration", json=body, headers=headers)).json()
    assert claims(made["token"])["way"] == claims(made["token"])["authenticationType"]


@pytest.mark.requirement("core-18-lambdas-12")
async def test_lambda_gets_the_scopes_of_the_token(rp, http):
    for member in ("accessTokenPopulateId", "idTokenPopulateId"):
        await hook(rp, member, "jwt.scopes = context.scopes")
    tokens = await token_response(rp, http, scope="openid email offline_access")
    for name in ("access_token", "id_token"):
        assert claims(tokens[name])["scopes"] == ["openid", "email", "offline_access"]
    assert claims((await token_response(rp, http))["access_token"])["scopes"] == []


@pytest.mark.requirement("core-18-lambdas-13")
@pytest.mark.parametrize("member", ["accessTokenPopulateId", "idTokenPopulateId"])
@pytest.mark.parametrize("statement", ["= 'forged'", "= 9", "= null", "= {}"])
async def test_reserved_claims_are_neither_added_nor_changed_nor_removed(rp, http, member, statement):
    name = "access_token" if member.startswith("access") else "id_token"
    before = claims((await token_response(rp, http, scope="openid"))[name])
    reserved = ("amr", "cnf", "exp", "iat", "sub", "tid", "tty", "userinfo_claims")
    forge = "".join(f"jwt.{claim} {statement};" for claim in reserved)
    for statements in (forge, "".join(f"delete jwt.{claim};" for claim in reserved)):
        await hook(rp, member, f"{statements} jwt.ran = true")
        after = claims((await token_response(rp, http, scope="openid"))[name])
        assert after["ran"] is True
        for claim in ("amr", "cnf", "sub", "tid", "tty", "userinfo_claims"):
            assert after.get(claim) == before.get(claim), claim
            assert (claim in after) is (claim in before)
        assert after["exp"] - after["iat"] == before["exp"] - before["iat"]


@pytest.mark.requirement("core-18-lambdas-13")
async def test_other_claims_can_be_changed_and_null_removes_one(rp, http):
    await hook(
        rp,
        "accessTokenPopulateId",
        "jwt.roles.push('made up'); jwt.applicationId = null; jwt.scope = undefined; jwt.aud = [jwt.aud, 'https://api'];"
        "jwt.gty = ['mine']; jwt.jti = 'j'",
    )
    token = (await token_response(rp, http, scope="openid"))["access_token"]
    changed = claims(token)
    assert (changed["roles"], changed["aud"], changed["gty"], changed["jti"]) == (
        ["made up"], [rp.client_id, "https://api"], ["mine"], "j",
    )  # fmt: skip
    assert not changed.keys() & {"applicationId", "scope"}
    assert header(token)["gty"] == ["password"]


@pytest.mark.requirement("core-18-lambdas-14")
async def test_introspection_has_claims_added_by_a_lambda(rp, http):
    await hook(rp, "accessTokenPopulateId", "jwt.colour = 'blue'")
    token = (await token_response(rp, http))["access_token"]
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token}
    answer = (await http.post("/oauth2/introspect", data=form)).json()
    assert (answer["active"], answer["colour"]) == (True, "blue")


async def test_replayed_code_revokes_a_token_with_a_lambda_jti(rp, http, browser):
    await hook(rp, "accessTokenPopulateId", f"jwt.jti = '{new_id()}'")
    code = await rp.code(browser, scope="openid")
    token = (await rp.exchange(http, code)).json()["access_token"]
    assert (await userinfo(http, token)).status_code == 200
    assert (await rp.exchange(http, code)).status_code == 400
    assert (await userinfo(http, token)).status_code == 401


async def test_lambda_gets_user_and_registration_without_secrets(rp, http, api):
    await hook(rp, "accessTokenPopulateId", "jwt.user = user; jwt.registration = registration")
    seen = claims((await token_response(rp, http))["access_token"])
    assert seen["user"]["id"] == rp.user["id"]
    assert seen["user"]["email"] == rp.login_id
    assert not seen["user"].keys() & {"private", "password", "salt", "encryptionScheme", "factor"}
    assert seen["registration"]["applicationId"] == rp.client_id
    assert seen["user"]["registrations"][0]["id"] == seen["registration"]["id"]
    rp.user = await relying_party.make_user(api, rp.tenant["id"])
    assert "registration" not in claims((await token_response(rp, http))["access_token"])


async def test_changes_of_user_and_registration_are_not_stored(rp, http):
    await hook(
        rp, "accessTokenPopulateId", "user.email = 'x@y.z'; user.data = {a: 1}; registration.roles.push('admin')"
    )
    await token_response(rp, http)
    user = (await rp.api.get(f"/api/user/{rp.user['id']}", headers={"X-FusionAuth-TenantId": rp.tenant["id"]})).json()
    assert (user["user"]["email"], user["user"]["registrations"][0]["roles"]) == (rp.login_id, [])


@pytest.mark.requirement("core-18-lambdas-26")
async def test_attack_invalid_results_are_rejected(rp, http):
    await hook(
        rp,
        "accessTokenPopulateId",
        "jwt.function = () => 1; jwt.nan = NaN; jwt.symbol = Symbol('s'); Object.prototype.polluted = 'x';"
        "Object.defineProperty(jwt, '__proto__', {value: {admin: true}, enumerable: true}); jwt.constructor = {a: 1}",
    )
    token = claims((await token_response(rp, http))["access_token"])
    assert not token.keys() & {"function", "nan", "symbol", "polluted", "__proto__"}
    assert token["constructor"] == {"a": 1}


FAILURES = {
    "throws": ("throw new Error('the secret reason')", "Error: the secret reason"),
    "endless": (ENDLESS, "InternalError: interrupted"),
    "endless in the library": ("new Array(4e9).join('')", "it took more than 500 ms of processor time"),
    "deep": ("(function g() { return g() + 1 })()", "Maximum call stack size exceeded"),
    "memory": ("const a = []; for (;;) a.push(new Array(1000).fill(1))", "out of memory"),
    "output": ("jwt.x = 'x'.repeat(300000)", "more than 262144 bytes came back"),
    "cyclic": ("jwt.jwt = jwt", "circular reference"),
    "getter": ("Object.defineProperty(jwt, 'x', {enumerable: true, get() { throw new Error('got') }})", "Error: got"),
    "no object": ("jwt.toJSON = () => 5", "came back as number"),
    "another list": ("Array.prototype.toJSON = () => []", "something else than its arguments"),
    "half a character": ("jwt.x = '\\ud800'", "not JSON"),
    "deep value": ("let a = []; for (let i = 0; i < 60; i++) a = [a]; jwt.a = a", "nested deeper than 40 levels"),
    "wrong jti": ("jwt.jti = 5", "a registered claim has a value of the wrong type"),
    "wrong aud": ("jwt.aud = {}", "a registered claim has a value of the wrong type"),
    "wrong auth_time": ("jwt.auth_time = 'now'", "a registered claim has a value of the wrong type"),
}


@pytest.mark.requirement("core-18-lambdas-21", "core-3-14")
@pytest.mark.parametrize("case", FAILURES)
async def test_failing_populate_lambda_leaves_the_token_unmodified(rp, http, service, case):
    statements, reason = FAILURES[case]
    before = claims((await token_response(rp, http, scope="openid"))["access_token"])
    made = await hook(rp, "accessTokenPopulateId", f"jwt.half = true; {statements}")
    after = claims((await token_response(rp, http, scope="openid"))["access_token"])
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} <= {"auth_time", "exp", "iat", "jti", "sid"}
    ((kind, text),) = await lambda_log(service, made)
    assert kind == "Error"
    assert text.startswith(f"The JWTPopulate lambda [{made['name']}] with the id [{made['id']}] failed: ")
    assert reason in text


async def test_failing_populate_lambda_leaves_the_id_token_unmodified(rp, http, browser, service):
    made = await hook(rp, "idTokenPopulateId", "jwt.half = true; throw 'the secret reason'")
    shown = await rp.authorize(browser, response_type="id_token", nonce="n", scope="openid")
    id_token = claims(response(await rp.submit(browser, shown))["id_token"])
    assert "half" not in id_token
    assert id_token["nonce"] == "n"
    assert [kind for kind, _ in await lambda_log(service, made)] == ["Error"]


async def test_user_is_created_with_an_unmodified_token_although_the_lambda_fails(rp, api, service):
    made = await hook(rp, "accessTokenPopulateId", "throw 1")
    body = {"user": {"username": new_id(), "password": PASSWORD}, "registration": {"applicationId": rp.client_id}}
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await api.post("/api/user/registration", json=body, headers=headers)
    assert answer.status_code == 200
    assert claims(answer.json()["token"])["sub"] == answer.json()["user"]["id"]
    assert (await api.get(f"/api/user/{answer.json()['user']['id']}", headers=headers)).status_code == 200
    assert len(await lambda_log(service, made)) == 1


async def test_busy_sandbox_rejects_requests(rp, http, service, monkeypatch):
    made = await hook(rp, "accessTokenPopulateId", "")

    async def full(*_given: Any) -> Any:
        raise Unavailable("Too many lambdas at once.")

    monkeypatch.setattr(internals.store(service, "lambda_runtime").sandbox, "call", full)
    answer = await token_request(rp, http)
    assert (answer.status_code, answer.json()["error"]) == (503, "server_error")
    assert await lambda_log(service, made) == []


@pytest.mark.requirement("core-18-lambdas-28")
async def test_tokens_without_lambda_do_not_use_the_sandbox(rp, http, service, monkeypatch):
    def never(*_given: Any) -> Any:
        raise AssertionError("no lambda is expected")

    monkeypatch.setattr(internals.store(service, "lambda_runtime").sandbox, "call", never)
    tokens = await token_response(rp, http, scope="openid")
    assert (await userinfo(http, tokens["access_token"])).json() == {"sub": rp.user["id"]}


@pytest.mark.requirement("core-18-lambdas-25")
async def test_lambda_state_is_isolated_by_tenant(rp, http, api):
    other = await relying_party.make(api, enabledGrants=["password"])
    made = await hook(rp, "accessTokenPopulateId", "jwt.before = globalThis.kept ?? null; globalThis.kept = user.email")
    configuration = {"lambdaConfiguration": {"accessTokenPopulateId": made["id"]}}
    await other.patch(f"/api/application/{other.client_id}", {"application": configuration})
    for party in (rp, other, rp, other, rp, other):
        assert "before" not in claims((await token_response(party, http))["access_token"])


async def test_64_concurrent_tokens_have_their_own_claims(rp, service):
    made = await hook(rp, "accessTokenPopulateId", "jwt.mine = jwt.sub + '!'")
    call = call_of(service, rp)
    results = await asyncio.gather(
        *(
            internals.run(service, lambdas.invoke, call, made["id"], "JWTPopulate", {"sub": str(n)}, {}, None)
            for n in range(64)
        )
    )
    assert [answered[0]["mine"] for answered in results] == [f"{n}!" for n in range(64)]


@pytest.mark.requirement("core-18-lambdas-27")
async def test_slow_lambda_does_not_block_other_requests(rp, http):
    """Verified by the order of completion."""
    await hook(rp, "accessTokenPopulateId", ENDLESS)
    ended: list[str] = []

    async def endless() -> None:
        assert (await token_request(rp, http)).status_code == 200
        ended.append("token")

    async def others() -> None:
        for _ in range(5):
            assert (await http.get("/.well-known/openid-configuration")).status_code == 200
        ended.append("others")

    await asyncio.gather(endless(), others())
    assert ended == ["others", "token"]


async def test_lambda_of_another_type_or_none_changes_nothing(rp, service):
    made = await make(rp, "UserInfoPopulate", "userInfo", "userInfo.a = 1")
    call = call_of(service, rp)
    for lambda_id in (made["id"], new_id()):
        assert await internals.run(service, lambdas.invoke, call, lambda_id, "JWTPopulate", {"sub": "1"}) == [
            {"sub": "1"}
        ]
    assert await internals.run(service, lambdas.invoke, call, made["id"], "UserInfoPopulate", {}) == [{"a": 1}]


@pytest.mark.requirement("core-18-lambdas-22")
@pytest.mark.parametrize("debug", [True, False])
async def test_console_output_is_logged_by_type_and_debug_output_only_with_debug(rp, http, service, debug):
    statements = "console.log('one', jwt.tty); console.debug('two'); console.error('three'); console.info('four')"
    made = await hook(rp, "accessTokenPopulateId", statements, debug=debug)
    await token_response(rp, http)
    described = f"The JWTPopulate lambda [{made['name']}] with the id [{made['id']}] printed:\n"
    expected = [("Debug", "two"), ("Error", "three"), ("Information", "one at\nfour")]
    shown = expected if debug else expected[1:]
    assert await lambda_log(service, made) == [(kind, described + text) for kind, text in shown]
    quiet = await hook(rp, "accessTokenPopulateId", "jwt.a = 1", debug=True)
    await token_response(rp, http)
    assert await lambda_log(service, quiet) == []


@pytest.mark.requirement("core-18-lambdas-22")
async def test_console_output_precedes_the_error(rp, http, service):
    made = await hook(rp, "accessTokenPopulateId", "console.log('before'); throw 'after'")
    await token_response(rp, http)
    assert [(kind, text.rpartition(" ")[2]) for kind, text in await lambda_log(service, made)] == [
        ("Information", "printed:\nbefore"),
        ("Error", "after"),
    ]


# Userinfo


@pytest.mark.requirement("contract-userinfo-4", "core-18-lambdas-15")
async def test_userinfo_is_populated_except_reserved_claims(rp, http):
    await hook(rp, "accessTokenPopulateId", "jwt.colour = 'blue'")
    await hook(
        rp,
        "userinfoPopulateId",
        "userInfo.colour = jwt.colour; userInfo.first = user.firstName ?? null; userInfo.roles = registration.roles;"
        "userInfo.sub = 'forged'; userInfo.email = 'x@y.z'; userInfo.email_verified = false; userInfo.tid = 'x'",
    )
    token = (await token_response(rp, http, scope="openid email"))["access_token"]
    assert (await userinfo(http, token)).json() == {
        "sub": rp.user["id"], "email": rp.login_id, "email_verified": True, "colour": "blue", "roles": [],
    }  # fmt: skip
    await hook(rp, "userinfoPopulateId", "for (const name in userInfo) delete userInfo[name]")
    assert (await userinfo(http, token)).json() == {
        "sub": rp.user["id"], "email": rp.login_id, "email_verified": True,
    }  # fmt: skip


@pytest.mark.requirement("core-18-lambdas-15")
async def test_failing_userinfo_lambda_is_reported_without_details(rp, http, service):
    token = (await token_response(rp, http, scope="openid"))["access_token"]
    made = await hook(rp, "userinfoPopulateId", "throw new Error('the secret reason')")
    answer = await userinfo(http, token)
    assert (answer.status_code, answer.json()["error"]) == (512, "server_error")
    assert "secret" not in answer.text
    assert [kind for kind, _ in await lambda_log(service, made)] == ["Error"]


# Validation

CLOSED = "result.errors.generalErrors.push({code: '[LoginPrevented]', message: 'Closed <b>today</b>.'});"


@pytest.mark.requirement("core-18-lambdas-17", "oauth-2.2-10", "reason-login_prevented")
async def test_password_grant_returns_the_error_of_the_lambda(rp, http):
    await hook(rp, "loginValidationId", f"{CLOSED} result.errors.fieldErrors['user.email'] = [{{message: 'Not you.'}}]")
    answer = await token_request(rp, http)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "invalid_grant",
        "error_reason": "login_prevented",
        "error_description": "Closed <b>today</b>. Not you.",
    }
    wrong = await token_request(rp, http, password="wrong")
    assert wrong.json()["error_reason"] == "invalid_user_credentials", "not revealed without the password"


@pytest.mark.requirement("core-18-lambdas-17")
async def test_login_page_shows_the_escaped_error_of_the_lambda(rp, browser):
    await hook(rp, "loginValidationId", CLOSED)
    answer = await rp.submit(browser, await rp.authorize(browser))
    assert answer.status_code == 200
    assert "Closed &lt;b&gt;today&lt;/b&gt;." in answer.text
    assert page(answer).forms[0]["fields"]["loginId"] == rp.login_id
    assert (await rp.authorize(browser)).status_code == 200, "there is no session"


async def test_lambda_without_errors_permits_logins(rp, http, browser):
    await hook(rp, "loginValidationId", "user.email = 'x'; result.other = 1")
    assert "access_token" in await token_response(rp, http)
    assert "code" in await rp.log_in(browser)


async def test_session_use_is_not_validated_by_the_lambda(rp, browser):
    await rp.log_in(browser)
    await hook(rp, "loginValidationId", CLOSED)
    assert "code" in response(await rp.authorize(browser))


async def test_login_lambda_gets_the_request_context(rp, http, service):
    made = await hook(rp, "loginValidationId", "console.log({user: user.id, registration, context})", debug=True)
    await token_response(rp, http)
    ((_, text),) = await lambda_log(service, made)
    assert f'"user":"{rp.user["id"]}"' in text
    assert f'"applicationId":"{rp.client_id}"' in text
    assert '"authenticationType":"PASSWORD"' in text
    assert '"ipAddress":"127.0.0.1"' in text


@pytest.mark.requirement("core-18-lambdas-17", "event-user.login.failed-2")
async def test_rejected_login_sends_an_event(rp, http):
    made = await hook(rp, "loginValidationId", CLOSED)
    types = ("user.login.failed", "user.login.success")
    async with receiving() as receiver:
        await subscribe(rp.api, rp.tenant, receiver.url, types)
        assert (await token_request(rp, http)).status_code == 400
        (received,) = await receiver.wait_for(1)
    event = received.event
    check_event(event)
    assert (event["type"], event["user"]["id"], event["applicationId"]) == (types[0], rp.user["id"], rp.client_id)
    assert event["reason"] == {
        "code": "lambdaValidation",
        "lambdaId": made["id"],
        "lambdaResult": {
            "fieldErrors": {},
            "generalErrors": [{"code": "[LoginPrevented]", "message": "Closed <b>today</b>."}],
        },
    }


@pytest.mark.requirement("core-18-lambdas-17")
@pytest.mark.parametrize(
    "statements", ["throw 'the secret reason'", ENDLESS, "result.errors = 'no'", "result.errors.generalErrors = ['no']"]
)
async def test_failing_login_lambda_prevents_logins(rp, http, browser, service, statements):
    made = await hook(rp, "loginValidationId", statements)
    answer = await token_request(rp, http)
    assert (answer.status_code, answer.json()["error"]) == (512, "server_error")
    there = response(await rp.submit(browser, await rp.authorize(browser)))
    assert (there["error"], "code" in there) == ("server_error", False)
    assert [kind for kind, _ in await lambda_log(service, made)] == ["Error", "Error"]


@pytest.mark.requirement("core-18-lambdas-18")
async def test_registration_lambda_returns_errors(rp, service):
    call = call_of(service, rp)
    services = service.services
    user = await services.directory.users.find(call.tenant_id, rp.user["id"])
    registration = user["registrations"][0]

    async def asked() -> Any:
        application = await services.configuration.applications.get(call.tenant_id, rp.client_id)
        form_context = rules.form_context(None, [], 1, 1)
        return await login_validation_lambdas.registration_errors(
            services, call, application, user, registration, form_context
        )

    assert await asked() == ((), ())
    await hook(
        rp,
        "selfServiceRegistrationValidationId",
        "if (context.eventInfo.ipAddress === '203.0.113.7' && registration.applicationId && user.email)"
        " result.errors.fieldErrors['user.email'] = [{code: '[blocked]user.email', message: 'Not from there.'}]",
    )
    fields, general = await asked()
    assert [(error.path, error.code, error.message) for error in fields] == [
        ("user.email", "[blocked]user.email", "Not from there.")
    ]
    assert general == []
    await hook(rp, "selfServiceRegistrationValidationId", "result.errors = []")
    with pytest.raises(LambdaFailed):
        await asked()


# Client credentials


async def test_attack_27_lambda_cannot_turn_a_user_token_into_an_entity_token(rp, http, service):
    made = await hook(rp, "accessTokenPopulateId", "jwt.gty = ['client_credentials']")
    assert claims((await token_response(rp, http))["access_token"])["gty"] == ["password"]
    assert [kind for kind, _ in await lambda_log(service, made)] == ["Error"]
    changed = {"lambda": {**made, "body": "function populate(jwt) { jwt.gty = ['client_credentials', 'x']; }"}}
    assert (await rp.api.put(f"/api/lambda/{made['id']}", json=changed)).status_code == 200
    assert (await token_request(rp, http)).status_code == 200


@pytest.mark.requirement("core-18-lambdas-16")
async def test_entity_token_is_populated_except_reserved_claims(rp, service):
    call = call_of(service, rp)
    before = {"sub": "e", "aud": "t", "exp": 2, "iat": 1, "permissions": {"t": ["read"]}, "tid": "x", "iss": "i"}

    async def populated() -> Document:
        tenant = await internals.store(service, "tenants").get(None, call.tenant_id)
        return await internals.run(
            service,
            token_lambdas.client_credentials,
            call,
            tenant,
            before,
            {"id": "e"},
            [{"id": "t"}],
            {"t": ("read",)},
        )

    assert await populated() == before
    made = await make(
        rp,
        "ClientCredentialsJWTPopulate",
        "jwt, recipientEntity, targetEntities, permissions",
        "for (const name of ['amr', 'aud', 'cnf', 'exp', 'iat', 'permissions', 'sub', 'tid']) jwt[name] = 'forged';"
        "jwt.who = recipientEntity.id; jwt.whom = targetEntities.map(one => one.id); jwt.may = permissions;"
        "jwt.iss = 'j'",
    )
    name = "clientCredentialsAccessTokenPopulateLambdaId"
    await rp.configure_tenant(oauthConfiguration={name: made["id"]})
    assert await populated() == {**before, "iss": "j", "who": "e", "whom": ["t"], "may": {"t": ["read"]}}
    failing = await make(rp, "ClientCredentialsJWTPopulate", "jwt", "jwt.iss = 5")
    await rp.configure_tenant(oauthConfiguration={name: failing["id"]})
    with pytest.raises(LambdaFailed):
        await populated()
