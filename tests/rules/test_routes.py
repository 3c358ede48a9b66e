"""Every route says who may call it, every permission belongs to a route's path, every schema file is used."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import prometheus_client
import pytest

from identity import permissions
from identity.domain.objects.resource_definition import Resource
from identity.events.catalogue import EVENTS
from identity.schemas import FOLDER, Schemas, load
from identity.web import application
from identity.web.base_handlers import ApiHandler, BaseHandler, Route
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Access, Endpoint
from identity.web.oauth2.oauth_handlers import OAuth2Handler, PageHandler

ROOT = Path(__file__).resolve().parent.parent.parent
ROUTES = application.routes(prometheus_client.CollectorRegistry())

# What anybody may call, each for a reason: a new line here is a decision.
PUBLIC = {
    ("/.well-known/change-password", "GET"),
    ("/.well-known/jwks.json", "GET"),
    ("/.well-known/oauth-authorization-server", "GET"),
    ("/.well-known/oauth-authorization-server/{tenant_id}", "GET"),
    ("/.well-known/openid-configuration", "GET"),
    ("/admin/static/{name}", "GET"),
    ("/api/docs", "GET"),
    ("/api/docs/reference.css", "GET"),
    ("/api/docs/schemas/{name}", "GET"),
    ("/api/docs/{tag}", "GET"),
    ("/api/health", "GET"),
    ("/api/health/live", "GET"),
    ("/api/identity-provider/lookup", "GET"),
    ("/api/identity-provider/start", "POST"),
    ("/api/jwt/public-key", "GET"),
    ("/api/openapi.json", "GET"),
    ("/api/tenant/password-validation-rules", "GET"),
    ("/api/tenant/password-validation-rules/{tenant_id}", "GET"),
    ("/favicon.ico", "GET"),
    ("/oauth2/device/validate", "GET"),
    ("/static/{name}", "GET"),
    ("/theme/{theme_id}/{name}", "GET"),
    ("/{tenant_id}/.well-known/jwks.json", "GET"),
    ("/{tenant_id}/.well-known/openid-configuration", "GET"),
    ("/{tenant_id}/oauth2/device/validate", "GET"),
}
# What anybody may call, and who has an API key is known by it: they state the user's address.
RECOGNIZED_KEY = {
    ("/api/identity-provider/login", "POST"),
    ("/api/jwt/reconcile", "POST"),
    ("/api/jwt/refresh", "POST"),
    ("/api/logout", "POST"),
    ("/api/passwordless/login", "POST"),
    ("/api/passwordless/send", "POST"),
    ("/api/two-factor/login", "POST"),
    ("/api/two-factor/send/{two_factor_id}", "POST"),
    # The challenge that the response answers is the credential.
    ("/api/webauthn/assert", "POST"),
    ("/api/webauthn/login", "POST"),
    ("/api/webauthn/register/complete", "POST"),
    # The id of a mail is the credential.
    ("/api/user/change-password/{change_password_id}", "GET"),
    ("/api/user/change-password/{change_password_id}", "POST"),
}
OPTIONAL_KEY = {
    ("/api/application/{application_id}/oauth-configuration", "GET"),
    ("/api/login", "POST"),
    ("/api/prometheus/metrics", "GET"),
    ("/api/status", "GET"),
    ("/api/user/verify-email", "POST"),
    ("/api/user/verify-email", "PUT"),
    ("/api/user/verify-email/{verification_id}", "POST"),
    ("/api/user/verify-registration", "POST"),
    ("/api/user/verify-registration", "PUT"),
    ("/api/user/verify-registration/{verification_id}", "POST"),
    ("/api/user/forgot-password", "POST"),
}
# What an API key opens, or a user's access token.
KEY_OR_BEARER = {
    ("/api/jwt/refresh", "DELETE"),
    ("/api/jwt/refresh/{token_id}", "DELETE"),
    ("/api/login", "PUT"),
    ("/api/two-factor/secret", "GET"),
    ("/api/two-factor/send", "POST"),
    ("/api/user", "GET"),
    ("/api/user/change-password", "GET"),
    ("/api/user/change-password", "POST"),
    ("/api/user/two-factor", "DELETE"),
    ("/api/user/two-factor", "POST"),
    ("/api/user/two-factor/{user_id}", "DELETE"),
    ("/api/user/two-factor/{user_id}", "POST"),
}
# What a user's access token opens, and no API key.
BEARER = {("/api/jwt/issue", "GET"), ("/api/jwt/validate", "GET")}


def declared(route: Route) -> Iterator[tuple[str, Endpoint]]:
    """The methods of a route, with what they declare."""
    for method in route.handler.SUPPORTED_METHODS:
        found = getattr(getattr(route.handler, method.lower()), "endpoint", None)
        if found is not None and has_verb(route, method):
            yield method, found


def has_verb(route: Route, method: str) -> bool:
    """Whether a declared resource has the verb of this method; others answer 405."""
    resource = route.arguments.get("resource")
    verbs = getattr(route.handler, "verbs", {})
    return not isinstance(resource, Resource) or verbs.get(method, "search") in {*resource.verbs, "search"}


@pytest.mark.requirement("design-state-31")
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.template)
def test_every_method_of_a_handler_declares_its_access(route: Route) -> None:
    assert issubclass(route.handler, BaseHandler)
    own = {
        name
        for base in route.handler.__mro__[: route.handler.__mro__.index(BaseHandler)]
        for name in vars(base)
        if name.upper() in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
    }
    assert own, "a handler without methods"
    for name in own:
        method = getattr(route.handler, name)
        assert isinstance(getattr(method, "endpoint", None), Endpoint), name
        assert name.upper() in route.handler.SUPPORTED_METHODS


@pytest.mark.requirement("core-4-16")
@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (Access.PUBLIC, PUBLIC),
        (Access.RECOGNIZED_KEY, RECOGNIZED_KEY),
        (Access.OPTIONAL_KEY, OPTIONAL_KEY),
        (Access.KEY_OR_BEARER, KEY_OR_BEARER),
    ],
    ids=["public", "recognized", "optional", "key or bearer"],
)
def test_routes_without_credentials_are_the_ones_decided_on(access: Access, expected: set[tuple[str, str]]) -> None:
    found = {
        (route.template, method) for route in ROUTES for method, about in declared(route) if about.access is access
    }
    assert found == expected


def test_management_routes_ask_for_an_api_key() -> None:
    exceptions = PUBLIC | RECOGNIZED_KEY | OPTIONAL_KEY | BEARER | KEY_OR_BEARER
    for route in ROUTES:
        if route.template.startswith("/api/scim/"):
            assert {about.access for _, about in declared(route)} == {Access.ENTITY}
        elif route.template.startswith("/api/"):
            is_page = route.template.startswith("/api/docs")
            assert is_page or issubclass(route.handler, ApiHandler), route.template
            for method, about in declared(route):
                if (route.template, method) not in exceptions:
                    assert about.access in {Access.API_KEY, Access.KEY_MANAGER}, (method, route.template)


@pytest.mark.requirement("core-4-13")
def test_every_key_route_can_be_granted_and_the_key_manager_s_cannot() -> None:
    for route in ROUTES:
        for method, about in declared(route):
            endpoint = permissions.endpoint_of(route.template)
            if about.access in {Access.API_KEY, Access.KEY_OR_BEARER, Access.OPTIONAL_KEY}:
                assert method in permissions.ENDPOINTS.get(endpoint, ()), f"{method} {endpoint}"
            elif about.access is Access.KEY_MANAGER:
                assert endpoint.startswith(permissions.KEY_MANAGER_ENDPOINT)
                assert endpoint not in permissions.ENDPOINTS


def test_pages_judge_requests_of_other_sites_themselves_and_nothing_else_does() -> None:
    """The CORS configuration must neither refuse a form that another site may post, nor let a script read a page."""
    for route in ROUTES:
        is_page = issubclass(route.handler, PageHandler)
        is_script = route.handler.cross_origin is CrossOriginAccess.BY_APPLICATION
        is_browser = any(about.access is Access.BROWSER for _, about in declared(route))
        assert is_page or is_script or not is_browser, route.template
        assert (route.handler.cross_origin is CrossOriginAccess.BY_PAGE) is is_page, route.template
    scripts = {route.template for route in ROUTES if route.handler.cross_origin is CrossOriginAccess.BY_APPLICATION}
    assert scripts == {"/app/me", "/app/refresh", "/app/refresh/{client_id}"}
    found = {route.template for route in ROUTES if route.handler.cross_origin is CrossOriginAccess.OPEN}
    pages = {"/.well-known/change-password"}
    assert found == {path for path, _ in PUBLIC if ".well-known" in path} - pages | {"/api/openapi.json"}


def test_forms_are_declared_where_the_family_reads_them_and_every_family_has_a_shape_for_refusals() -> None:
    for route in ROUTES:
        if any(about.form is not None for _, about in declared(route)):
            assert issubclass(route.handler, OAuth2Handler), route.template
        assert route.handler.refuse is not BaseHandler.refuse, route.template


def test_features_are_those_that_can_be_switched_off() -> None:
    """A misspelled feature would always be on."""
    features = json.loads((FOLDER / "config.json").read_text())["properties"]["license"]["properties"]["features"]
    known = set(features["anyOf"][1]["propertyNames"]["enum"])
    found = {about.feature for route in ROUTES for _, about in declared(route)}
    found |= {getattr(route.arguments.get("resource"), "feature", None) for route in ROUTES}
    assert found - {None} <= known


def test_templates_are_unique_and_match_only_themselves() -> None:
    """The first route that matches answers, so a template with an id must not hide one that is spelled out."""
    templates = [route.template for route in ROUTES]
    assert len(set(templates)) == len(templates)
    for route in ROUTES:
        path = re.sub(r"\{\w+\}", "00000000-0000-4000-8000-000000000000", route.template)
        first = next(other for other in ROUTES if re.fullmatch(other.pattern, path))
        assert first.template == route.template


def test_endpoints_drop_the_ids_and_nothing_else() -> None:
    assert permissions.endpoint_of("/api/application/{a}/role/{b}") == "/api/application/role"
    assert permissions.endpoint_of("/api/entity/type/{a}/permission") == "/api/entity/type/permission"
    assert permissions.endpoint_of("/api/webhook") == "/api/webhook"


# Schemas

FILES = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.json"))


@functools.cache
def sources() -> str:
    """Return the text of all modules of the service."""
    return "".join(file.read_text() for file in (ROOT / "identity").rglob("*.py"))


@functools.cache
def resource_schemas() -> set[str]:
    """Return the schema files of the resources: their rows derive the name from that of the resource."""
    modules = [module for name, module in sys.modules.items() if name.startswith("identity.")]
    return {row.schema for module in modules for row in vars(module).values() if isinstance(row, Resource)}


@functools.cache
def texts() -> dict[str, str]:
    """Return the text of every schema file."""
    return {name: (FOLDER / name).read_text() for name in FILES}


@pytest.mark.requirement("design-core-3")
@pytest.mark.parametrize("name", FILES)
def test_every_schema_file_is_used(name: str) -> None:
    if name.startswith("events/"):
        kind = Path(name).stem
        referred = any(Path(name).name in text for other, text in texts().items() if other != name)
        assert kind in EVENTS or referred
        return
    assert name in resource_schemas() or f'"{name}"' in sources() or (name == "config.json" and name in sources())


@pytest.mark.parametrize("name", [name for name in FILES if name != "config.json"])
def test_every_schema_file_compiles_and_lets_no_unknown_keyword_pass(name: str) -> None:
    """A misspelled keyword would silently check nothing, and one of a wrong type fail at the first request."""
    jsonschema.Draft202012Validator.check_schema(Schemas()[name].schema)
    known = {
        "$comment", "$defs", "$id", "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "const", "default",
        "dependentRequired", "description", "else", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum",
        "format", "if", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength",
        "minProperties", "minimum", "not", "oneOf", "pattern", "patternProperties", "properties", "propertyNames",
        "readOnly", "required", "then", "title", "type", "uniqueItems", "writeOnly",
    }  # fmt: skip

    def check(node: object) -> None:
        if not isinstance(node, dict):
            return
        unknown = {key for key in node if key not in known and not key.startswith("x-")}
        assert not unknown, json.dumps(node)[:200]
        for key in ("properties", "$defs", "patternProperties"):
            for child in node.get(key, {}).values():
                check(child)
        for key in ("items", "additionalProperties", "propertyNames", "not", "if", "then", "else"):
            check(node.get(key))
        for key in ("allOf", "anyOf", "oneOf"):
            for child in node.get(key, []):
                check(child)

    check(load(name))


def test_defaults_fit_their_own_schema() -> None:
    """`{}` with every default filled in must pass, but for what is required."""
    for name in FILES:
        if not name.startswith("api/") or name.endswith((".request.json", ".response.json")):
            continue
        wrapper, about = next(iter(load(name)["properties"].items()))
        if about.get("type") == "array":
            continue
        _, errors = Schemas()[name].examine({wrapper: {}})
        assert {re.match(r"\[\w+\]", error.code)[0] for error in errors} <= {"[blank]", "[missing]"}, name
