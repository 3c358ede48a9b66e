"""`@endpoint`: what a handler method declares of itself, and what it may ask for and return.

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


class Access(enum.Enum):
    """Who may call a route. PUBLIC has to be written out; CLIENT and BEARER are judged by the operation.

    CLIENT_OR_KEY: an Authorization header that is not that of a client (Basic) has to be an API key. KEY_OR_BEARER: one
    that does not hold an access token (Bearer, or JWT as older clients say) has to be an API key; without the header
    the operation judges what else there is. RECOGNIZED_KEY: public, but a valid API key identifies the caller, who may
    then state the user's address; any other Authorization header is ignored.
    """

    API_KEY = "api-key"
    KEY_MANAGER = "key-manager"
    OPTIONAL_KEY = "optional-key"
    CLIENT = "client"
    CLIENT_OR_KEY = "client-or-key"
    BEARER = "bearer"
    KEY_OR_BEARER = "key-or-bearer"
    BROWSER = "browser"
    RECOGNIZED_KEY = "recognized-key"
    PUBLIC = "public"


class Tenancy(enum.Enum):
    """Whether the tenant of a call is worked out from key and header, or by the operation itself.

    AS_NAMED is key and header, too, but of one that is not named there is none, even if only one tenant exists: for
    what belongs to a tenant or to the instance.
    """

    BY_KEY_AND_HEADER = "key-and-header"
    AS_NAMED = "named"
    BY_OPERATION = "operation"


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What a handler answers: a JSON object, prepared bytes, pieces of either, or nothing.

    `reason` explains a refusal without a body, for the log alone.
    """

    body: Mapping[str, Any] | bytes | None = None
    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cookies: Sequence[Morsel[str]] = ()
    pieces: AsyncGenerator[bytes, None] | None = None
    reason: str = ""


Query = Mapping[str, Literal["text", "texts", "uuid", "uuids", "boolean", "integer", "instant"]]
"""The query parameters of a method: name -> what it holds (`texts` and `uuids`: may be repeated)."""

Answers = str | Mapping[int, str | None] | None
"""What a method answers with when all goes well, for the OpenAPI document.

The name of a schema, such as `api/version.response.json`, or `api/api-key.json#apiKey` for an object with just that
member of a schema; a media type for what is no JSON; None for an empty body. Names are formatted with the arguments of
the route. A mapping gives it by status; an empty mapping is for a method that only ever refuses. A name with a `?` at
the end is of a body that is not always there.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """What `@endpoint` declares about one method."""

    access: Access
    body: str | None = None
    raw_body: bool = False
    form: str | None = None
    answer: Answers = None
    query: Query | str = dataclasses.field(default_factory=dict)
    tenancy: Tenancy = Tenancy.BY_KEY_AND_HEADER
    feature: str | None = None
    takes: str | None = None


Method = Callable[..., Awaitable[Reply]]
Answer = Callable[..., Awaitable[None]]
"""A decorated method, as Tornado calls it."""


class Runs(Protocol):
    """What a decorated method is a method of."""

    async def run(self, declared: Endpoint, method: Method, path: Mapping[str, str]) -> None:
        """One request from its headers to its reply."""


def endpoint(  # noqa: PLR0913 (the columns of a table, each by its name)
    *,
    access: Access,
    body: str | None = None,
    raw_body: bool = False,
    form: str | None = None,
    answer: Answers = None,
    query: Query | str | None = None,
    tenancy: Tenancy = Tenancy.BY_KEY_AND_HEADER,
    feature: str | None = None,
    takes: str | None = None,
) -> Callable[[Method], Answer]:
    """Declare a handler method.

    `body` names the schema of its JSON body, `form` that of its form; `raw_body` hands over the parsed JSON object
    unjudged, for operations that judge it themselves (create and update of declared resources); `takes` names the
    schema of a body that the method reads, or hands over, by itself. `query` are its query parameters, and no others
    can be read; a text names a schema that has them. `answer`, `takes` and `query` make the OpenAPI document. `feature`
    is the one of `license.features` without which callers, once they are known, are told [NotLicensed].
    """
    declared = Endpoint(access, body, raw_body, form, answer, query or {}, tenancy, feature, takes)

    return functools.partial(_decorated, declared)


def redeclared(answer: Answer, **changes: Any) -> Answer:
    """Return a decorated method with other values in its declaration."""
    return _decorated(dataclasses.replace(vars(answer)["endpoint"], **changes), inspect.unwrap(answer))


def _decorated(declared: Endpoint, method: Method) -> Answer:
    @functools.wraps(method)
    async def run(self: Runs, **path: str) -> None:
        await self.run(declared, functools.partial(method, self), path)

    run.endpoint = declared  # type: ignore[attr-defined]
    return run


class Parameters(dict[str, str]):
    """The query parameters of a request: what nobody declared is there, but cannot be asked for."""

    def __init__(self, given: Mapping[str, str], declared: Collection[str]) -> None:
        super().__init__(given)
        self._declared = declared

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict. Raises LookupError for a parameter that the endpoint does not declare: a programming error."""
        require_declared(name, self._declared)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        require_declared(name, self._declared)
        return super().__getitem__(name)


def require_declared(name: str, declared: Collection[str]) -> None:
    """Raise LookupError for a query parameter that is not declared, and so not in the OpenAPI document."""
    if name not in declared:
        raise LookupError(f"the endpoint does not declare the query parameter {name}")
