"""Response of the login API for each outcome; those of federated logins are in tests/federation."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.login import login_outcomes
from identity.errors import NotFound, Unavailable
from identity.operations.clients import clients
from identity.operations.clients.clients import TenantHints
from identity.operations.users import login_responses
from tests import internals, relying_party


@pytest.fixture
async def answer(service, api) -> Any:
    """Returns the response to a result, for an application and its user."""
    rp = await relying_party.make(api)
    client = await internals.run(service, clients.get_client, TenantHints(), rp.client_id)
    call = internals.call(service, client.tenant_id)

    async def answered(make: Any) -> login_responses.LoginResponse:
        user = await internals.store(service, "users").get(rp.tenant["id"], rp.user["id"])
        return await internals.run(
            service,
            login_responses.build_response,
            call,
            client,
            make(user),
            "PASSWORD",
            login_responses.LoginOptions.from_request({"noJWT": True}),
        )

    return answered


async def test_required_password_change_gets_203_with_reason_and_id(answer):
    found = await answer(lambda user: login_outcomes.PasswordChangeRequired(user, "Expired"))
    assert found.status == 203
    assert len(found.body.pop("changePasswordId")) == 43
    assert found.body == {"changePasswordReason": "Expired"}


async def test_wrong_credentials_are_not_found(answer):
    with pytest.raises(NotFound):
        await answer(lambda user: login_outcomes.WrongCredentials())


async def test_too_many_attempts_are_limited(answer):
    with pytest.raises(Unavailable, match="in 42 seconds"):
        await answer(lambda user: login_outcomes.TooManyAttempts(42))


async def test_login_without_tokens_returns_the_user(answer):
    found = await answer(lambda user: login_outcomes.LoggedIn(user, user["registrations"][0]))
    assert (found.status, set(found.body)) == (200, {"user"})
