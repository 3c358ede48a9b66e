"""The generic screens of every resource that has a layout: list, create, show, edit, JSON and delete."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.errors import NotFound
from identity.ids import parse_id
from identity.web.base_handlers import Route
from identity.web.console import forms, layouts, listing, render, uploads, values
from identity.web.console.forms import Options
from identity.web.console.handlers import ConsoleHandler
from identity.web.console.layouts import Action, Layout, Preset, Tab, member_of, with_member
from identity.web.console.listing import ListRequest
from identity.web.console.snippets import ApiCall
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.internal_requests import InternalResponse

TENANT_HEADER: Final = "X-FusionAuth-TenantId"
TENANT_FIELD: Final = "console.tenantId"
_MAXIMUM_OPTIONS: Final = 200
_MAXIMUM_OPTIONS_OF_PAGE: Final = 400
"""All choices of a page together, so that a form with many references stays below 60 kB."""
_PAGING: Final = frozenset({"startRow", "numberOfResults"})
_FREE: Final = "text"
"""Marks a filter that takes any text."""
_READ_ONLY: Final = ("id", "insertInstant", "lastUpdateInstant")


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
        found: Document = (await self.get_json(self.item_path(object_id)))[self.layout.wrapper]
        return found

    async def reference_options(self) -> Options:
        """Return the choices of the members that refer to other resources; none for those with too many."""
        uses = collections.Counter(self.layout.references.values())
        uses.update(slug for slug in self.layout.filters.values() if slug not in {"", _FREE})
        found: dict[str, Sequence[tuple[str, str]]] = {}
        room = _MAXIMUM_OPTIONS_OF_PAGE
        for slug, count in sorted(uses.items(), key=lambda pair: (pair[1], pair[0])):
            choices = await self.choices(layouts.load(slug))
            if choices is not None and len(choices) * count <= room:
                found[slug] = choices
                room -= len(choices) * count
        return found

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


class ListHandler(ResourceHandler):
    """`/admin/<resource>`."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show one page of the list."""
        layout = self.layout
        given = {name: self.parameter(name) for name in self.request.query_arguments}
        request = ListRequest.of(layout, given)
        query = request.query(layout)
        tenant_id = request.tenant_id(layout)
        headers = {TENANT_HEADER: tenant_id} if tenant_id else {}
        found = listing.listed(layout, request, await self.get_json(layout.search_path, query, headers=headers))
        options = await self.reference_options()
        return self.resource_page(
            "list.html",
            title=layout.title,
            request=request,
            found=found,
            headings=listing.heading_links(layout.columns, request),
            names={slug: dict(choices) for slug, choices in options.items()},
            filters=self.filters(options, request),
            member_of=member_of,
            pages=[page for page in layout.list_pages if self.may(page.method, page.path)],
            api_call=ApiCall("GET", layout.search_path, query, headers=headers),
        )

    def filters(self, options: Options, request: ListRequest) -> list[tuple[str, str, list[tuple[str, str]], str]]:
        """Return the filters: name, label, choices (none for a text field), value."""
        found = []
        for name, slug in self.layout.filters.items():
            choices = self.schema_choices(name) if not slug else list(options.get(slug, ()))
            found.append((name, forms.label_of(name), choices, request.filters.get(name, "")))
        return found

    def schema_choices(self, member: str) -> list[tuple[str, str]]:
        """Return the values that the schema allows for a member."""
        declared, _ = forms.declaration(self.schema, f"{self.layout.wrapper}.{member}")
        return [(str(value), str(value)) for value in declared.get("enum", ())]


class FormHandler(ResourceHandler):
    """A screen with a form made from the schema."""

    def initialize(self, **arguments: Any) -> None:
        """Read the images of a form, which are sent as `multipart/form-data`, as `data:` URLs."""
        super().initialize(**arguments)
        self.multipart = uploads.receive(self.request) if self.layout.images else None

    def form_values(self) -> dict[str, list[str]]:
        """Return the fields of the form."""
        return super().form_values() if self.multipart is None else self.multipart

    @property
    def preset(self) -> Preset | None:
        """The kind of a new object that the query names."""
        return self.layout.preset(self.parameter("kind"))

    async def form_groups(
        self, document: Document, errors: Mapping[str, Sequence[str]] | None = None, *, is_new: bool = False
    ) -> list[forms.Group]:
        """Return the fields with the values of a document."""
        options = await self.reference_options()
        wanted = self.preset.members if is_new and self.preset is not None else ()
        return forms.groups(self.schema, self.layout, document, options, errors, is_new=is_new, wanted=wanted)

    def defaults(self) -> Document:
        """Return the values that fit the kind of the new object."""
        return {} if self.preset is None else dict(self.preset.values)

    async def submitted(self, document: Document, *, is_new: bool) -> tuple[Document, dict[str, list[str]]]:
        """Return the document with the values of the submitted form, and the errors of unreadable fields."""
        fields = await self.form_groups(document, is_new=is_new)
        return forms.apply(fields, document, self.form_values())

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


class NewHandler(FormHandler):
    """`/admin/<resource>/new`."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show the form of a new object; first its kinds, where there are several."""
        if self.layout.presets and self.preset is None and self.parameter("kind") != "other":
            return self.resource_page("presets.html", title=f"New {self.layout.singular}")
        return await self.form_page(self.defaults(), {})

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 303: None})
    async def post(self, call: Call) -> Reply:
        """Create the object."""
        document, errors = await self.submitted(self.defaults(), is_new=True)
        api_call = self.creation(values.without_empty(document))
        if errors or self.field("preview"):
            return await self.form_page(document, errors, api_call=api_call)
        response = await self.call_api(
            "POST", api_call.path, api_call.query, api_call.body, headers=dict(api_call.headers)
        )
        if not response.is_success:
            groups = await self.form_groups(document, is_new=True)
            by_path, general = self.errors_of(response, groups)
            return await self.form_page(document, by_path, general, api_call)
        created = response.json()[self.layout.wrapper]
        return self.redirect_to(self.screen_of(created["id"]), done="created")

    def creation(self, document: Document) -> ApiCall:
        """Return the API call that creates a document."""
        tenant_id = self.field(TENANT_FIELD)
        headers = {TENANT_HEADER: tenant_id} if tenant_id else {}
        path = self.layout.create_path or self.layout.path
        return ApiCall("POST", path, body={self.layout.wrapper: document}, headers=headers)

    async def form_page(
        self,
        document: Document,
        errors: Mapping[str, Sequence[str]],
        general: Sequence[str] = (),
        api_call: ApiCall | None = None,
    ) -> Reply:
        """Return the form with the submitted values."""
        groups = await self.form_groups(document, errors, is_new=True)
        api_call = api_call or self.creation(values.without_empty(document))
        return self.resource_page(
            "form.html",
            400 if errors or general else 200,
            title=f"New {self.layout.singular if self.preset is None else self.preset.title.lower()}",
            name="",
            actions=[],
            tabs=[],
            tab="",
            screen=self.layout.screen,
            groups=groups,
            general=general,
            tenants=await self.tenants(),
            tenant_id=self.field(TENANT_FIELD),
            submit=f"Create {self.layout.singular}",
            preview={"kind": self.parameter("kind")},
            api_call=api_call.masked(self.layout.wrapper, [*self.layout.secrets, *self.layout.images]),
        )

    async def tenants(self) -> list[tuple[str, str]]:
        """Return the tenants that an object can be created in; none if there is no choice."""
        authority = self.administrator.authority
        if not self.layout.is_tenant_scoped or (authority is not None and authority.tenant_id is not None):
            return []
        found = await self.choices(layouts.load("tenants")) or []
        return found if len(found) > 1 else []


class ShowHandler(ResourceHandler):
    """`/admin/<resource>/<id>`."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 302: None})
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the object; with `reveal` its secrets too, after a recent login."""
        is_revealed = self.parameter("reveal") == "true"
        if is_revealed and (redirect := await self.renewal(call)) is not None:
            return redirect
        document = await self.load(object_id)
        groups = self.facts(document, await self.reference_options())
        secrets = [
            (forms.label_of(secret), member_of(document, secret) if is_revealed else None)
            for secret in self.layout.secrets
            if isinstance(member_of(document, secret), str) and self.may_verb("update")
        ]
        return self.object_page(
            "show.html",
            document,
            "Overview",
            groups=groups,
            secrets=secrets,
            instants=[(forms.label_of(name), document[name]) for name in _READ_ONLY[1:] if name in document],
            api_call=ApiCall("GET", self.item_path(object_id)),
        )

    def facts(self, document: Document, options: Options) -> list[tuple[str, list[tuple[str, Any, str]]]]:
        """Return the groups of the layout as label, value and path of the object that the value refers to."""
        found = []
        for group in self.layout.groups:
            listed = [fact for member in group.members if (fact := self.fact(document, member, options)) is not None]
            if listed:
                found.append((group.title, listed))
        return found

    def fact(self, document: Document, member: str, options: Options) -> tuple[str, Any, str] | None:
        """Return the label, the value and the link of a member; None without a value."""
        value = member_of(document, member)
        if value in (None, "", [], {}) or member in self.layout.secrets:
            return None
        label = self.layout.labels.get(member) or forms.label_of(member)
        if member in self.layout.images:
            return label, values.shown("image", value), ""
        slug = self.layout.references.get(member)
        if slug is not None and isinstance(value, str):
            return label, dict(options.get(slug, ())).get(value, value), f"/admin/{slug}/{value}"
        if member.endswith("Instant") and isinstance(value, int):
            return label, render.instant(value), ""
        if isinstance(value, dict) and value and all(isinstance(each, bool) for each in value.values()):
            value = [name for name, is_set in value.items() if is_set]
        return label, value, ""


class EditHandler(FormHandler):
    """`/admin/<resource>/<id>/edit`."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the form with the current values."""
        document = await self.load(object_id)
        return await self.form_page(document, document, {})

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 303: None})
    async def post(self, call: Call, object_id: str) -> Reply:
        """Send what was changed, as a merge patch."""
        return await self.store(object_id)

    async def store(self, object_id: str) -> Reply:
        """Store the submitted form."""
        stored = await self.load(object_id)
        document, errors = await self.submitted(stored, is_new=False)
        api_call = self.change(stored, document)
        if errors or self.field("preview"):
            return await self.form_page(stored, document, errors, api_call=api_call)
        response = await self.call_api(
            api_call.method, api_call.path, api_call.query, api_call.body, headers=dict(api_call.headers)
        )
        if not response.is_success:
            groups = await self.form_groups(document)
            by_path, general = self.errors_of(response, groups)
            return await self.form_page(stored, document, by_path, general, api_call)
        return self.redirect_to(self.screen_of(object_id), done="saved")

    def change(self, stored: Document, document: Document) -> ApiCall:
        """Return the API call that stores a changed document: with PATCH the changed members only."""
        path, wrapper = self.item_path(stored["id"]), self.layout.wrapper
        if self.layout.update == "PUT":
            kept = {name: value for name, value in document.items() if name not in _READ_ONLY}
            return ApiCall("PUT", path, body={wrapper: kept})
        patch = values.difference(stored, document)
        return ApiCall("PATCH", path, body={wrapper: patch}, headers={"Content-Type": patches.MERGE})

    async def form_page(
        self,
        stored: Document,
        document: Document,
        errors: Mapping[str, Sequence[str]],
        general: Sequence[str] = (),
        api_call: ApiCall | None = None,
    ) -> Reply:
        """Return the form with these values."""
        api_call = api_call or self.change(stored, document)
        return self.object_page(
            "form.html",
            stored,
            "Edit",
            400 if errors or general else 200,
            groups=await self.form_groups(document, errors),
            general=general,
            tenants=[],
            tenant_id="",
            submit="Save changes",
            preview={"id": stored["id"]},
            api_call=api_call.masked(self.layout.wrapper, [*self.layout.secrets, *self.layout.images]),
        )


class JsonHandler(FormHandler):
    """`/admin/<resource>/<id>/json`."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the object as JSON, without its secrets."""
        document = self.concealed(await self.load(object_id))
        return self.json_page(document, _indented(document))

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 303: None})
    async def post(self, call: Call, object_id: str) -> Reply:
        """Replace the object; secrets that the JSON leaves out stay."""
        text = self.field("json")
        stored = self.concealed(await self.load(object_id))
        try:
            document = json.loads(text)
        except ValueError as error:
            return self.json_page(stored, text, [f"This is not JSON: {error}."])
        response = await self.call_api("PUT", self.item_path(object_id), body={self.layout.wrapper: document})
        if not response.is_success:
            return self.json_page(stored, text, self.errors_of(response, ())[1])
        return self.redirect_to(self.screen_of(object_id), done="saved")

    def json_page(self, document: Document, text: str, general: Sequence[str] = ()) -> Reply:
        """Return the page with a JSON text."""
        return self.object_page(
            "json.html",
            document,
            "JSON",
            400 if general else 200,
            text=text,
            general=general,
            api_call=ApiCall("PUT", self.item_path(document["id"]), body={self.layout.wrapper: document})
            if self.may_verb("update")
            else ApiCall("GET", self.item_path(document["id"])),
        )


class DeleteHandler(ResourceHandler):
    """`/admin/<resource>/<id>/delete`."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 302: None})
    async def get(self, call: Call, object_id: str) -> Reply:
        """Say what is deleted, and ask for the name."""
        if (redirect := await self.renewal(call)) is not None:
            return redirect
        return await self.confirmation(await self.load(object_id))

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 303: None})
    async def post(self, call: Call, object_id: str) -> Reply:
        """Delete the object, if its name was typed."""
        if (redirect := await self.renewal(call)) is not None:
            return redirect
        document = await self.load(object_id)
        if self.field("name").strip() != self.layout.name_of(document).strip():
            return await self.confirmation(document, ["The name is not the one of this object."])
        response = await self.call_api("DELETE", self.item_path(object_id), self.layout.delete_query)
        if not response.is_success:
            return self.api_error_page(response)
        return self.redirect_to(self.layout.screen, done="deleted")

    async def confirmation(self, document: Document, general: Sequence[str] = ()) -> Reply:
        """Return the page that asks for the name."""
        return self.object_page(
            "delete.html",
            document,
            "",
            400 if general else 200,
            general=general,
            counts=await self.counts(document),
            api_call=ApiCall("DELETE", self.item_path(document["id"]), self.layout.delete_query),
        )

    async def counts(self, document: Document) -> list[tuple[str, int]]:
        """Return how many objects of each kind go with this one."""
        found = []
        for count in self.layout.removes:
            query = {name: value.format(**document) for name, value in count.query.items()}
            headers = {TENANT_HEADER: document["id"]} if self.slug == "tenants" else None
            answer = await self.find_json(count.path.format(**document), query, headers=headers)
            total = member_of(answer, count.total.format(**document))
            found.append((count.label, total if isinstance(total, int) else len(total or ())))
        return found


class SingleHandler(EditHandler):
    """`/admin/<resource>` of an object without an id."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show the form."""
        document = await self.load("")
        return await self.form_page(document, document, {})

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 303: None})
    async def post(self, call: Call) -> Reply:
        """Store the changes."""
        return await self.store("")

    async def load(self, object_id: str) -> Document:
        """Return the object, named by its resource."""
        return {"id": "", "name": self.layout.title, **await super().load(object_id)}

    def item_path(self, object_id: str) -> str:
        """The path of the object in the API."""
        return self.layout.path

    def screen_of(self, object_id: str) -> str:
        """The path of the object in the console."""
        return self.layout.screen

    def tabs(self, object_id: str) -> list[tuple[str, str]]:
        """There is one page only."""
        return []


class ExportHandler(ResourceHandler):
    """`/admin/<resource>/export`: the file with every row that the list finds."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="application/zip")
    async def get(self, call: Call) -> Reply:
        """Export."""
        given = {name: self.parameter(name) for name in self.request.query_arguments}
        query = ListRequest.of(self.layout, given).query(self.layout)
        kept = {name: value for name, value in query.items() if name not in _PAGING and name not in self.layout.fixed}
        response = await self.call_api("GET", self.layout.export, kept)
        if not response.is_success:
            return self.api_error_page(response)
        names = ("Content-Type", "Content-Disposition")
        return Reply(response.body, headers={name: response.headers[name] for name in names})


def _indented(document: Document) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True)


def _routes() -> Iterator[Route]:
    for slug in layouts.slugs():
        layout, arguments = layouts.load(slug), {"slug": slug, "section": slug}
        if layout.is_single:
            yield Route(layout.screen, SingleHandler, arguments)
            continue
        yield Route(layout.screen, ListHandler, arguments)
        if layout.export:
            yield Route(f"{layout.screen}/export", ExportHandler, arguments)
        if not layout.has_items:
            continue
        if "create" in layout.verbs:
            yield Route(f"{layout.screen}/new", NewHandler, arguments)
        yield Route(f"{layout.screen}/{{object_id}}", ShowHandler, arguments)
        yield Route(f"{layout.screen}/{{object_id}}/json", JsonHandler, arguments)
        if "update" in layout.verbs:
            yield Route(f"{layout.screen}/{{object_id}}/edit", EditHandler, arguments)
        if "delete" in layout.verbs:
            yield Route(f"{layout.screen}/{{object_id}}/delete", DeleteHandler, arguments)


ROUTES = list(_routes())
