"""The base handlers of the screens of a resource."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.errors import NotFound
from identity.ids import parse_id
from identity.web.console import admin_forms, form_steps, forms, layouts, uploads
from identity.web.console.admin_forms import Arrangement
from identity.web.console.forms import Options
from identity.web.console.handlers import ConsoleHandler
from identity.web.console.layouts import Action, Layout, Preset, Tab, member_of, with_member
from identity.web.console.snippets import ApiCall
from identity.web.endpoint import Reply
from identity.web.internal_requests import InternalResponse

TENANT_FIELD: Final = "console.tenantId"
TENANT_HEADER: Final = "X-FusionAuth-TenantId"
READ_ONLY: Final = ("id", "insertInstant", "lastUpdateInstant")
FREE_TEXT: Final = "text"
"""Marks a filter that takes any text."""
_ROLES: Final = "roles"
_OWNERS: Final = "role-applications"
"""What layouts call the roles of all applications, and the names of the applications that they belong to."""
_MAXIMUM_OPTIONS: Final = 200
_MAXIMUM_OPTIONS_OF_PAGE: Final = 400
"""All choices of a page together, so that a form with many references stays below 60 kB."""


class ResourceHandler(ConsoleHandler):
    """A screen of one resource."""

    slug: str = ""

    @property
    def layout(self) -> Layout:
        """The layout of the resource."""
        return layouts.load(self.slug)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the request body."""
        return self.services.schemas[self.layout.schema].schema

    def path_ids(self, path: Mapping[str, str]) -> dict[str, Any]:
        """Return the ids in the path: UUIDs, or the numbers of log rows. Raises NotFound for anything else."""
        found = {name: parse_id(text) or (text if text.isdecimal() else None) for name, text in path.items()}
        if None in found.values():
            raise NotFound
        return found

    def item_path(self, object_id: str) -> str:
        """The path of the object in the API."""
        return f"{self.layout.path}/{object_id}"

    def screen_of(self, object_id: str) -> str:
        """The path of the object in the console."""
        return f"{self.layout.screen}/{object_id}"

    def may_verb(self, verb: str) -> bool:
        """Whether the layout offers a verb and this administrator may use it."""
        method = {"create": "POST", "update": self.layout.update, "delete": "DELETE"}[verb]
        path = self.layout.create_path if verb == "create" and self.layout.create_path else self.layout.path
        return verb in self.layout.verbs and self.may(method, path)

    def may_read(self, tab: Tab) -> bool:
        """Whether this administrator may read a part of a tab."""
        return any(self.may("GET", panel.path) for panel in tab.panels)

    def actions(self, document: Document) -> list[Action]:
        """Return the actions on the whole object that are possible now and permitted."""
        return [
            action
            for action in self.layout.actions
            if not action.keys and not action.in_tab and self.is_offered(action, document)
        ]

    def is_offered(self, action: Action, document: Document) -> bool:
        """Whether an action suits the state of the object, and this administrator may use it."""
        suits = all(member_of(document, name) == value for name, value in action.when.items())
        return suits and self.may(action.method, action.path)

    async def load(self, object_id: str) -> Document:
        """Return the object. Raises ApiError."""
        return self.layout.from_answer(await self.get_json(self.item_path(object_id)))

    def tenant_of(self, document: Document) -> str:
        """Return the tenant of an object; of a new one that of the form, of the administrator, or the default."""
        authority = self.administrator.authority
        named = document.get("tenantId") or self.field(TENANT_FIELD) or (authority and authority.tenant_id)
        return str(named or self.services.runtime.default_tenant_id)

    async def reference_options(self, document: Document | None = None) -> Options:
        """Return the choices of the members that refer to other resources; none for those with too many.

        Roles are those of the applications in the tenant of the document.
        """
        uses = collections.Counter(self.layout.references.values())
        uses.update(slug for slug in self.layout.filters.values() if slug not in {"", FREE_TEXT})
        found: dict[str, Sequence[tuple[str, str]]] = {}
        room = _MAXIMUM_OPTIONS_OF_PAGE
        if uses.pop(_ROLES, 0) and document is not None:
            found.update(await self.roles(self.tenant_of(document), room))
            room -= len(found.get(_ROLES, ()))
        for slug, count in sorted(uses.items(), key=lambda pair: (pair[1], pair[0])):
            choices = await self.choices(layouts.load(slug))
            if choices is not None and len(choices) * count <= room:
                found[slug] = choices
                room -= len(choices) * count
        return found

    async def roles(self, tenant_id: str, room: int) -> Options:
        """Return the roles of the applications of a tenant, and the names of the applications by role."""
        applications = await self.applications(tenant_id)
        roles = [(role["id"], role["name"], each["name"]) for each in applications or () for role in each["roles"]]
        if applications is None or len(roles) > room:
            return {}
        return {_ROLES: [(each, name) for each, name, _ in roles], _OWNERS: [(each, owner) for each, _, owner in roles]}

    async def applications(self, tenant_id: str) -> list[Document] | None:
        """Return the applications of a tenant by name, or None if there are too many, or not permitted."""
        query = {"tenantId": tenant_id, "numberOfResults": _MAXIMUM_OPTIONS}
        found = await self.find_json("/api/application/search", query)
        if "applications" not in found or found["total"] > _MAXIMUM_OPTIONS:
            return None
        return sorted(found["applications"], key=lambda each: each["name"].lower())

    async def choices(self, layout: Layout) -> list[tuple[str, str]] | None:
        """Return the ids and names of all objects of a resource, or None if there are too many, or not permitted."""
        if not self.may("GET", layout.search_path):
            return None
        query = {"numberOfResults": _MAXIMUM_OPTIONS} if layout.has_search else {}
        response = await self.call_api("GET", layout.search_path, query)
        if not response.is_success or response.json().get("total", 0) > _MAXIMUM_OPTIONS:
            return None
        rows = response.json().get(layout.plural) or []
        return sorted(((row["id"], layout.name_of(row)) for row in rows), key=lambda pair: pair[1].lower())

    def resource_page(self, template: str, status: int = 200, **values: Any) -> Reply:
        """Return a page of this resource."""
        may = {verb: self.may_verb(verb) for verb in ("create", "update", "delete")}
        frame = {"layout": self.layout, "may": may, "api_call": None, "base_url": self.origin().base_url}
        return self.page(template, status, **{**frame, **values})

    def tabs(self, object_id: str) -> list[tuple[str, str]]:
        """Return the tabs of an object, as pairs of title and path."""
        screen = self.screen_of(object_id)
        found = [("Overview", screen)]
        if self.may_verb("update"):
            found.append(("Edit", f"{screen}/edit"))
        found += [(tab.title, f"{screen}/tab/{tab.name}") for tab in self.layout.tabs if self.may_read(tab)]
        found += [(title, f"{screen}/{name}") for name, title in self.layout.pages.items()]
        return [*found, ("JSON", f"{screen}/json")]

    def object_page(self, template: str, document: Document, tab: str, status: int = 200, **values: Any) -> Reply:
        """Return a page about one object, under one of its tabs."""
        name = self.layout.name_of(document)
        more: dict[str, Any] = {"name": name, "object": document, "tabs": self.tabs(document["id"]), "tab": tab}
        more["actions"] = self.actions(document)
        return self.resource_page(template, status, title=name, screen=self.screen_of(document["id"]), **more, **values)

    def concealed(self, document: Document) -> Document:
        """Return the object without its secrets."""
        for secret in self.layout.secrets:
            document = with_member(document, secret, None) if member_of(document, secret) is not None else document
        return document


class FormHandler(ResourceHandler):
    """A screen with a form made from the schema."""

    def initialize(self, **arguments: Any) -> None:
        """Read the images of a form, which are sent as `multipart/form-data`, as `data:` URLs."""
        super().initialize(**arguments)
        self.multipart = uploads.receive(self.request) if self.layout.images else None

    def form_values(self) -> dict[str, list[str]]:
        """Return the fields of the form."""
        return super().form_values() if self.multipart is None else self.multipart

    async def make_call(self, call: ApiCall) -> InternalResponse:
        """Make the API call of a form as this administrator."""
        return await self.call_api(call.method, call.path, call.query, call.body, headers=dict(call.headers))

    @property
    def preset(self) -> Preset | None:
        """The kind of a new object that the query names."""
        return self.layout.preset(self.parameter("kind"))

    async def form_groups(
        self, document: Document, errors: Mapping[str, Sequence[str]] | None = None, *, is_new: bool = False
    ) -> list[forms.Group]:
        """Return the fields with the values of a document."""
        options = await self.reference_options(document)
        arranged = await self.arranged(document)
        wanted = self.preset.members if is_new and self.preset is not None else ()
        return forms.groups(arranged.schema, arranged.layout, document, options, errors, is_new=is_new, wanted=wanted)

    async def arranged(self, document: Document) -> Arrangement:
        """Return the layout and the schema of the form; those of users may come from a form of the tenant."""
        if self.slug != "users":
            return Arrangement(self.layout, self.schema)
        tenant = await self.services.configuration.tenants.find_cached(None, self.tenant_of(document))
        form_id = member_of(tenant, "formConfiguration.adminUserFormId")
        return await admin_forms.arrange(self.services, form_id, self.layout, self.schema)

    def is_draft(self) -> bool:
        """Whether the form was submitted to be shown again: with its API call, or with a change of its inputs."""
        return bool(self.field("preview") or self.field(form_steps.EDIT))

    def defaults(self) -> Document:
        """Return the values that fit the kind of the new object."""
        return {} if self.preset is None else dict(self.preset.values)

    async def submitted(self, document: Document, *, is_new: bool) -> tuple[Document, dict[str, list[str]]]:
        """Return the document with the values of the submitted form, and the errors of unreadable fields."""
        fields = await self.form_groups(document, is_new=is_new)
        values, arranged = self.form_values(), await self.arranged(document)
        changed, errors = forms.apply(fields, document, values)
        unchanged = (
            () if is_new else [field.name for group in fields for field in group.fields if field.kind == "secret"]
        )
        if not self.is_draft():
            errors = {**admin_forms.problems(arranged.fields, values, unchanged), **errors}
        return changed, errors

    def errors_of(
        self, response: InternalResponse, groups: Sequence[forms.Group]
    ) -> tuple[dict[str, list[str]], list[str]]:
        """Return the errors of a response by field, and those that belong to no field of the form."""
        if response.status in {401, 404} or not response.body:
            return {}, ["Your roles do not permit this." if response.status == 401 else "The object does not exist."]
        body = response.json()
        by_path = {
            path: [f"{error['message']} ({error['code'].partition(']')[0]}])" for error in found]
            for path, found in body.get("fieldErrors", {}).items()
        }
        names = [field.name for group in groups for field in group.fields]
        general = [error["message"] for error in body.get("generalErrors", [])]
        for path, messages in by_path.items():
            if not any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in names):
                general += messages
        return by_path, general
