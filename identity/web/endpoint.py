"""`@endpoint`: the declaration of handler methods, and their replies.

A handler method is decorated with `@endpoint(access=...)`, takes the Call, its path ids and its body, and returns a
Reply. There is no handler without a declared access.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from http.cookies import Morsel
from typing import Any, Literal, Protocol

from identity.call import Call


class Access(enum.Enum):
    """The authentication that a route requires; the operation checks that of CLIENT and BEARER.

    CLIENT_OR_KEY: an Authorization header without client credentials (Basic) must be an API key. KEY_OR_BEARER: one
    without an access token (Bearer, or JWT in older clients) must be an API key; without the header the operation
    checks other credentials. ENTITY: an access token of an entity, which the operation checks. RECOGNIZED_KEY: public,
    but a valid API key identifies the caller, who may then state the user's address; any other Authorization header is
    ignored.
    """

    API_KEY = "api-key"
    KEY_MANAGER = "key-manager"
    OPTIONAL_KEY = "optional-key"
    CLIENT = "client"
    CLIENT_OR_KEY = "client-or-key"
    BEARER = "bearer"
    KEY_OR_BEARER = "key-or-bearer"
    BROWSER = "browser"
    ENTITY = "entity"
    RECOGNIZED_KEY = "recognized-key"
    PUBLIC = "public"


class Tenancy(enum.Enum):
    """How the tenant of a call is resolved: from API key and header, or by the operation.

    AS_NAMED uses key and header as well, but never the only tenant: for objects of a tenant or the instance.
    """

    BY_KEY_AND_HEADER = "key-and-header"
    AS_NAMED = "named"
    BY_OPERATION = "operation"


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A response: a JSON object, prepared bytes, a stream of pieces, or an empty body.

    `reason` explains a refusal without a body, in the log only.
    """

    body: Mapping[str, Any] | bytes | None = None
    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cookies: Sequence[Morsel[str]] = ()
    pieces: AsyncGenerator[bytes, None] | None = None
    reason: str = ""


def redirect(location: str, cookies: Sequence[Morsel[str]] = ()) -> Reply:
    """Return a redirect with status 302; 307 would send a password again."""
    return Reply(status=302, headers={"Location": location}, cookies=cookies)


Query = Mapping[str, Literal["text", "texts", "uuid", "uuids", "boolean", "integer", "instant"]]
"""The query parameters of a method by name, with their types (`texts` and `uuids` may be repeated)."""

Answers = str | Mapping[int, str | None] | None
"""The successful responses of a method, for the OpenAPI document.

The name of a schema, such as `api/version.response.json`, or `api/api-key.json#apiKey` for an object with only that
member of a schema; a media type other than JSON; None for an empty body. Names are formatted with the arguments of the
route. A mapping gives them by status; an empty mapping is for a method that always refuses. A name that ends with `?`
is of a body that may be absent.
"""


Method = Callable[..., Awaitable[Reply]]
Answer = Callable[..., Awaitable[None]]
"""A decorated method, which Tornado calls."""


class Runs(Protocol):
    """The class of a decorated method."""

    async def run(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> None:
        """Handle one request."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The declaration of one handler method, as its decorator: `@endpoint(access=...)`.

    `body` names the schema of its JSON body, `form` that of its form. `raw_body` passes the parsed JSON object without
    validation, for operations that validate it themselves; `takes` names the schema of such a body, or of one that the
    method reads itself. Without `body_required`, an absent body counts as an empty object. `query` are its query
    parameters, the only ones that can be read, or the name of a schema with them. The OpenAPI document contains
    `answer`, `takes` and `query`. Without the feature `feature` of `license.features`, authenticated callers get
    [NotLicensed].
    """

    access: Access
    body: str | None = None
    raw_body: bool = False
    body_required: bool = True
    form: str | None = None
    answer: Answers = None
    query: Query | str = dataclasses.field(default_factory=dict)
    tenancy: Tenancy = Tenancy.BY_KEY_AND_HEADER
    feature: str | None = None
    takes: str | None = None

    def __call__(self, method: Method) -> Answer:
        """Return the method that Tornado calls."""

        @functools.wraps(method)
        async def run(handler: Runs, **path: str) -> None:
            await handler.run(self, functools.partial(method, handler), path)

        run.endpoint = self  # type: ignore[attr-defined]
        return run


endpoint = Endpoint
oauth_endpoint = functools.partial(endpoint, tenancy=Tenancy.BY_OPERATION)
"""Declares a method of a protocol; its operation resolves the tenant."""
page_endpoint = functools.partial(oauth_endpoint, access=Access.BROWSER, answer={200: "text/html", 302: None})
"""Declares a method of a page for browsers, with its `query` or its `form`."""


def calls(
    operation: Callable[..., Awaitable[Any]],
    docstring: str,
    *,
    wrapper: str | None = None,
    status: int = 200,
    access: Access = Access.API_KEY,
    **declared: Any,
) -> Answer:
    """Declare a method that answers with the result of an operation, which `wrapper` names if it is only a member.

    The operation gets the services, the call, the body if the method declares one, and the ids of the path. An empty
    body answers for an operation without a result.
    """
    declared.setdefault("raw_body", "takes" in declared)

    async def method(self: Any, call: Call, **arguments: Any) -> Reply:
        body = [arguments.pop("body")] if "body" in arguments else []
        result = await operation(self.services, call, *body, *arguments.values())
        return Reply(result if wrapper is None else {wrapper: result}, status)

    method.__doc__ = docstring
    return endpoint(access=access, **declared)(method)


def redeclared(answer: Answer, **changes: Any) -> Answer:
    """Return a decorated method with other values in its declaration."""
    declared: Endpoint = vars(answer)["endpoint"]
    return dataclasses.replace(declared, **changes)(inspect.unwrap(answer))


class Parameters(dict[str, str]):
    """The query parameters of a request; reading one that the endpoint does not declare is a programming error."""

    def __init__(self, given: Mapping[str, str], declared: Collection[str]) -> None:
        super().__init__(given)
        self._declared = declared

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict. Raises LookupError for a parameter that the endpoint does not declare."""
        require_declared(name, self._declared)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        require_declared(name, self._declared)
        return super().__getitem__(name)


def require_declared(name: str, declared: Collection[str]) -> None:
    """Raise LookupError for a query parameter that is not declared and thus missing in the OpenAPI document."""
    if name not in declared:
        raise LookupError(f"the endpoint does not declare the query parameter {name}")
