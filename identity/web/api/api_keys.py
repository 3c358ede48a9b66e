"""/api/api-key, for key managers only."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import Invalid
from identity.operations.configuration import api_keys as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_HERE = Tenancy.BY_OPERATION
_SCHEMA = operations.RESOURCE.schema
_ANSWER = f"{_SCHEMA}#apiKey"


class ApiKeysHandler(ApiHandler):
    """Create with a random id; there is no list. PUT, PATCH and DELETE miss their id."""

    @endpoint(access=Access.KEY_MANAGER, raw_body=True, tenancy=_HERE, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create, or copy."""
        return self.shown(await operations.create(self.services, call, body, None), fresh=True)

    @endpoint(access=Access.KEY_MANAGER, tenancy=_HERE, answer={})
    async def get(self, call: Call) -> Reply:
        """Refuse: the id is missing, and keys are not listed."""
        raise missing_id()

    @endpoint(access=Access.KEY_MANAGER, tenancy=_HERE, answer={})
    async def put(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise missing_id()

    @endpoint(access=Access.KEY_MANAGER, tenancy=_HERE, answer={})
    async def patch(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise missing_id()

    @endpoint(access=Access.KEY_MANAGER, tenancy=_HERE, answer={})
    async def delete(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise missing_id()

    def shown(self, api_key: Document, *, fresh: bool = False) -> Reply:
        """A key in its wrapper; one that is not retrievable shows its value once, when it is made."""
        if not api_key["retrievable"] and not fresh:
            api_key = {name: value for name, value in api_key.items() if name != "key"}
        return Reply({"apiKey": operations.to_response(self.services, api_key)})


class ApiKeyHandler(ApiKeysHandler):
    """One API key."""

    def path_name(self, name: str) -> str:
        """The id by the name the API gives it."""
        return "apiKeyId"

    @endpoint(access=Access.KEY_MANAGER, raw_body=True, tenancy=_HERE, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, key_id: str, body: Document) -> Reply:
        """Create with that id, or copy."""
        return self.shown(await operations.create(self.services, call, body, key_id), fresh=True)

    @endpoint(access=Access.KEY_MANAGER, tenancy=_HERE, answer=_ANSWER)
    async def get(self, call: Call, key_id: str) -> Reply:
        """Retrieve."""
        return self.shown(await operations.retrieve(self.services, call, key_id))

    @endpoint(access=Access.KEY_MANAGER, raw_body=True, tenancy=_HERE, takes=_SCHEMA, answer=_ANSWER)
    async def put(self, call: Call, key_id: str, body: Document) -> Reply:
        """Replace."""
        return self.shown(await operations.update(self.services, call, body, key_id))

    @endpoint(access=Access.KEY_MANAGER, tenancy=_HERE, takes=_SCHEMA, answer=_ANSWER)
    async def patch(self, call: Call, key_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        return self.shown(await operations.patch(self.services, call, kind, patch, key_id))

    @endpoint(access=Access.KEY_MANAGER, tenancy=_HERE)
    async def delete(self, call: Call, key_id: str) -> Reply:
        """Remove; the key stops working at once."""
        await operations.delete(self.services, call, key_id)
        return Reply()


def missing_id() -> Invalid:
    """The error of a verb that needs an id in the path."""
    return Invalid.field("missing", "apiKeyId", "You must specify the [apiKeyId] in the path.")


ROUTES = [Route("/api/api-key", ApiKeysHandler), Route("/api/api-key/{key_id}", ApiKeyHandler)]
