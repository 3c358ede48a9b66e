"""Finds the route of a request among those whose paths begin with the same two segments.

Tornado tries the patterns of all routes in turn, and there are hundreds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import tornado.web
from tornado.httputil import HTTPServerRequest
from tornado.routing import PathMatches

from identity.web.base_handlers import BaseHandler, Route

Prefix = tuple[str, ...]
Rule = tuple[PathMatches, type[BaseHandler], dict[str, Any]]

_ANY: Final[Prefix] = ("*",)
"""The prefix of the routes with a parameter in the first two segments."""


class RoutedApplication(tornado.web.Application):
    """The application over `routes`, in their order; `common` are arguments of all handlers."""

    def __init__(self, routes: Sequence[Route], common: Mapping[str, Any], **settings: Any) -> None:
        super().__init__(**settings)
        self._routes = routes
        self._common = common
        self._prefixes = {_prefix(route.template) for route in routes}
        self._rules: dict[Prefix, list[Rule]] = {}

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """See Tornado; a path without a route gets the default handler."""
        for matcher, handler, arguments in self._candidates(_prefix(request.path)):
            found = matcher.match(request)
            if found is not None:
                return self.get_handler_delegate(request, handler, arguments, **found)
        return super().find_handler(request, **kwargs)

    def _candidates(self, prefix: Prefix) -> list[Rule]:
        """Return the rules for a prefix, which are compiled when the first request comes."""
        prefix = prefix if prefix in self._prefixes else _ANY
        rules = self._rules.get(prefix)
        if rules is None:
            found = (route for route in self._routes if _prefix(route.template) in (prefix, _ANY))
            rules = self._rules[prefix] = list(map(self._rule, found))
        return rules

    def _rule(self, route: Route) -> Rule:
        arguments = {**self._common, "template": route.template, **route.arguments}
        return PathMatches(route.pattern), route.handler, arguments


def _prefix(path: str) -> Prefix:
    """Return the first two segments of a path; trailing slashes do not count."""
    segments = tuple(path.strip("/").split("/", 2)[:2])
    return _ANY if any("{" in segment for segment in segments) else segments
