"""/api/initial-access-token: tokens for dynamic client registration. An extension of our own."""

from __future__ import annotations

from identity.operations.client_registration import initial_access_tokens as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import calls


class InitialAccessTokensHandler(ApiHandler):
    """The initial access tokens of a tenant."""

    get = calls(
        operations.retrieve_all,
        "Retrieve the initial access tokens that can still be used, without their values.",
        wrapper="initialAccessTokens",
        answer="api/initial-access-tokens.response.json",
    )

    post = calls(
        operations.create,
        "Create an initial access token; only this response contains its value.",
        wrapper="initialAccessToken",
        takes="api/initial-access-token.json",
        answer="api/initial-access-token.response.json",
    )


class InitialAccessTokenHandler(ApiHandler):
    """One initial access token."""

    delete = calls(operations.delete, "Delete an initial access token, which can then no longer be used.")


ROUTES = [
    Route("/api/initial-access-token", InitialAccessTokensHandler),
    Route("/api/initial-access-token/{token_id}", InitialAccessTokenHandler),
]
