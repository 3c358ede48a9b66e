"""The generic screens of every resource that has a layout: list, show, JSON, delete and export; and all routes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.web.base_handlers import Route
from identity.web.console import form_steps, forms, layouts, listing, render, values
from identity.web.console.forms import Options
from identity.web.console.layouts import member_of
from identity.web.console.listing import ListRequest
from identity.web.console.resource_forms import EditHandler, NewHandler, SingleHandler
from identity.web.console.resource_handlers import READ_ONLY, TENANT_HEADER, FormHandler, ResourceHandler
from identity.web.console.snippets import ApiCall
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_PAGING: Final = frozenset({"startRow", "numberOfResults"})


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


class ShowHandler(ResourceHandler):
    """`/admin/<resource>/<id>`."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 302: None})
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the object; with `reveal` its secrets too, after a recent login."""
        is_revealed = self.parameter("reveal") == "true"
        if is_revealed and (redirect := await self.renewal(call)) is not None:
            return redirect
        document = await self.load(object_id)
        groups = self.facts(document, await self.reference_options(document))
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
            instants=[(forms.label_of(name), document[name]) for name in READ_ONLY[1:] if name in document],
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
        if member in self.layout.steps:
            return label, form_steps.texts(value, dict(options.get(slug or "", ()))), ""
        if member in self.layout.sections:
            names = dict(options.get(slug or "", ()))
            titles = options.get(self.layout.sections[member], ())
            listed = forms.sections([(each, names.get(each, each)) for each in value], titles)
            return label, [f"{title}: {', '.join(text for _, text in chosen)}" for title, chosen in listed], ""
        if slug is not None and isinstance(value, str):
            return label, dict(options.get(slug, ())).get(value, value), f"/admin/{slug}/{value}"
        if member.endswith("Instant") and isinstance(value, int):
            return label, render.instant(value), ""
        if isinstance(value, dict) and value and all(isinstance(each, bool) for each in value.values()):
            value = [name for name, is_set in value.items() if is_set]
        return label, value, ""


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
        response = await self.call_api("PUT", self.item_path(object_id), body=self.layout.body(document))
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
            api_call=ApiCall("PUT", self.item_path(document["id"]), body=self.layout.body(document))
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
