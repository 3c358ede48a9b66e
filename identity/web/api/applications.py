"""/api/application, with its roles, scopes and OAuth configuration, and the initial access tokens of clients."""

from __future__ import annotations

from typing import Final

from identity.call import ApiKeyCaller, Call, Document
from identity.operations.client_registration import initial_access_tokens
from identity.operations.configuration import applications as operations
from identity.operations.configuration import client_secrets
from identity.web import crud, subresources
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint

_SCHEMA: Final = operations.RESOURCE.schema
_OBJECT: Final = f"{_SCHEMA}#application"
_HARD_DELETE: Final = "api/hard-delete.request.json"


class ApplicationsHandler(crud.CollectionHandler):
    """Create with a random id, retrieve all."""

    @endpoint(access=Access.API_KEY, query={"inactive": "boolean"})
    async def get(self, call: Call) -> Reply:
        """Retrieve the active applications, or with `inactive` the others."""
        return await self.respond_all(operations.retrieve_all(self.services, call, inactive=self.flag("inactive")))


class ApplicationHandler(crud.ObjectHandler):
    """One application."""

    @endpoint(access=Access.API_KEY, query={"reactivate": "boolean"}, takes=_SCHEMA, answer=_OBJECT)
    async def put(self, call: Call, object_id: str) -> Reply:
        """Replace, or with `reactivate` activate again."""
        if self.flag("reactivate"):
            return await self.respond(await operations.reactivate(self.services, call, object_id))
        return await self.respond(await self.operation("update", call)(self.json_object(), object_id))

    @endpoint(access=Access.API_KEY, query={"hardDelete": "boolean"}, body=_HARD_DELETE, body_required=False)
    async def delete(self, call: Call, object_id: str, body: Document) -> Reply:
        """Deactivate, or with `hardDelete` delete."""
        remove = operations.delete if self.is_flag_set("hardDelete", body) else operations.deactivate
        await remove(self.services, call, object_id)
        return Reply()


class OAuthConfigurationHandler(ApiHandler):
    """The settings that a client library reads before a login."""

    @endpoint(access=Access.OPTIONAL_KEY, answer="api/oauth-configuration.response.json")
    async def get(self, call: Call, application_id: str) -> Reply:
        """Retrieve the OAuth configuration; with the client secret for callers with an API key."""
        with_secret = isinstance(call.caller, ApiKeyCaller)
        return Reply(await operations.oauth_configuration(self.services, call, application_id, with_secret=with_secret))


class ClientSecretHandler(ApiHandler):
    """The client secret."""

    post = calls(
        client_secrets.rotate,
        "Replace it; the previous one is accepted as well for a while.",
        takes=client_secrets.REQUEST,
        body_required=False,
        answer="api/client-secret.response.json",
    )


class InitialAccessTokensHandler(ApiHandler):
    """The initial access tokens of a tenant."""

    get = calls(
        initial_access_tokens.retrieve_all,
        "Retrieve the initial access tokens that can still be used, without their values.",
        wrapper="initialAccessTokens",
        answer="api/initial-access-tokens.response.json",
    )

    post = calls(
        initial_access_tokens.create,
        "Create an initial access token; only this response contains its value.",
        wrapper="initialAccessToken",
        takes="api/initial-access-token.json",
        answer="api/initial-access-token.response.json",
    )


class InitialAccessTokenHandler(ApiHandler):
    """One initial access token."""

    delete = calls(initial_access_tokens.delete, "Delete an initial access token, which can then no longer be used.")


ROUTES = [
    *crud.routes(operations.RESOURCE, collection=ApplicationsHandler, item=ApplicationHandler),
    Route("/api/application/{application_id}/oauth-configuration", OAuthConfigurationHandler),
    Route("/api/application/{application_id}/client-secret", ClientSecretHandler),
    *subresources.routes(operations.ROLE),
    *subresources.routes(operations.SCOPE, subresources.ReadableSubresourceHandler),
    Route("/api/initial-access-token", InitialAccessTokensHandler),
    Route("/api/initial-access-token/{token_id}", InitialAccessTokenHandler),
]
