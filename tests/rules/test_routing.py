"""The route of a request is the first one whose pattern matches its path, as if all were tried in turn."""

from __future__ import annotations

import re
from unittest import mock

import prometheus_client
import pytest
import tornado.httputil

from identity.web import application
from identity.web.routing import RoutedApplication

ROUTES = application.routes(prometheus_client.CollectorRegistry())
PATHS = [re.sub(r"\{\w+\}", "a%20b", route.template) for route in ROUTES]


@pytest.fixture(scope="module")
def routed() -> RoutedApplication:
    return RoutedApplication(ROUTES, {})


def found(routed: RoutedApplication, path: str):
    line = tornado.httputil.RequestStartLine("GET", path, "HTTP/1.1")
    headers = tornado.httputil.HTTPHeaders({"Host": "localhost"})
    request = tornado.httputil.HTTPServerRequest(start_line=line, headers=headers, connection=mock.Mock())
    delegate = routed.find_handler(request)
    return delegate.handler_kwargs.get("template"), delegate.path_kwargs


@pytest.mark.parametrize("suffix", ["", "/"])
def test_first_matching_route_is_found(routed, suffix):
    for path in (path + suffix for path in PATHS):
        first = next((route for route in ROUTES if re.fullmatch(route.pattern, path)), None)
        template, arguments = found(routed, path)
        assert template == (first and first.template), path
        assert all(value == b"a b" for value in (arguments or {}).values())


@pytest.mark.parametrize(
    "path", ["/none", "//api/user", "/api", "/api/user/a/b/c/d", "/*", "/{tenant_id}", "/api/{x}", "*"]
)
def test_other_paths_have_no_route(routed, path):
    assert found(routed, path)[0] is None
