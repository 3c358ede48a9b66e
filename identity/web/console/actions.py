"""Actions on objects, declared by layouts: a page that says what happens and asks for input, then one API call."""

from __future__ import annotations

import urllib.parse
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.errors import NotFound
from identity.ids import new_secret
from identity.web.base_handlers import Route
from identity.web.console import layouts, values
from identity.web.console.forms import Field
from identity.web.console.layouts import Action, Input, member_of
from identity.web.console.resource_handlers import TENANT_HEADER, FormHandler
from identity.web.console.snippets import ApiCall
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_PREFIX: Final = "input."
_HIDDEN: Final = "..."
_MAXIMUM_NAMES: Final = 25


def filled(template: Any, given: Mapping[str, Any]) -> Any:
    """Return a part of a call with its placeholders replaced; a text that is one placeholder becomes its value.

    Members whose value is None are left out.
    """
    if isinstance(template, str):
        if template[:1] == "{" and template[-1:] == "}" and template.count("{") == 1:
            return given.get(template[1:-1])
        return template.format_map(given)
    if isinstance(template, Mapping):
        found = {str(filled(name, given) or ""): filled(value, given) for name, value in template.items()}
        return {name: value for name, value in found.items() if value is not None}
    if isinstance(template, list):
        return [filled(each, given) for each in template]
    return template


class ActionHandler(FormHandler):
    """`/admin/<resource>/<id>/do/<action>`."""

    action_name: str = ""

    @property
    def action(self) -> Action:
        """The action of the path."""
        found = self.layout.action(self.action_name)
        assert found is not None
        return found

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 302: None})
    async def get(self, call: Call, object_id: str) -> Reply:
        """Say what happens, and ask for the input."""
        if self.is_sensitive() and (redirect := await self.renewal(call)) is not None:
            return redirect
        document = await self.load(object_id)
        return await self.action_page(document, {each.name: each.value for each in self.action.inputs}, {})

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 303: None})
    async def post(self, call: Call, object_id: str) -> Reply:
        """Make the call."""
        if self.is_sensitive() and (redirect := await self.renewal(call)) is not None:
            return redirect
        document = await self.load(object_id)
        given, action = self.inputs(), self.action
        request = self.request_of(document, given, secret=str(new_secret(32)))
        response = await self.make_call(request)
        if not response.is_success:
            by_path, general = self.errors_of(response, ())
            return await self.action_page(document, given, by_path, general)
        if action.reveals:
            found = [(name, member_of(response.json(), name)) for name in action.reveals]
            return self.object_page("revealed.html", document, "", action=action, found=found)
        back = f"{self.screen_of(object_id)}/tab/{action.in_tab}" if action.in_tab else self.screen_of(object_id)
        return self.redirect_to(back, done=action.done)

    def is_sensitive(self) -> bool:
        """Whether the action requires a recent login."""
        return self.action.is_dangerous or bool(self.action.reveals)

    def inputs(self) -> dict[str, Any]:
        """Return the values of the submitted inputs."""
        form = self.form_values()
        return {
            each.name: values.read(each.kind, form.get(_PREFIX + each.name, ()), (), None)
            for each in self.action.inputs
        }

    def row(self) -> dict[str, str]:
        """Return the members that identify the row, from the query."""
        return {name: self.parameter(name) for name in self.action.keys}

    def request_of(self, document: Document, given: Mapping[str, Any], secret: str = _HIDDEN) -> ApiCall:
        """Return the API call of the action."""
        action, user = self.action, self.administrator.user
        known = {**document, **given, **self.row(), "me": user["id"], "secret": secret}
        quoted = {name: urllib.parse.quote(str(value), safe="") for name, value in known.items()}
        headers = {TENANT_HEADER: document["tenantId"]} if "tenantId" in document else {}
        headers |= {"Content-Type": action.content_type} if action.content_type else {}
        return ApiCall(
            action.method,
            action.path.format_map(quoted),
            filled(action.query, known),
            None if action.body is None else filled(action.body, known),
            headers,
        )

    async def action_page(
        self,
        document: Document,
        given: Mapping[str, Any],
        errors: Mapping[str, Sequence[str]],
        general: Sequence[str] = (),
    ) -> Reply:
        """Return the page of the action."""
        shown = {
            each.name: _HIDDEN if each.kind == "secret" else given.get(each.name) or f"<{each.name}>"
            for each in self.action.inputs
        }
        fields = [await self.input_field(each, given.get(each.name)) for each in self.action.inputs]
        return self.object_page(
            "action.html",
            document,
            "",
            400 if errors or general else 200,
            action=self.action,
            row=self.row(),
            fields=fields,
            general=[*general, *(message for messages in errors.values() for message in messages)],
            api_call=self.request_of(document, shown),
        )

    async def input_field(self, each: Input, value: Any) -> Field:
        """Return the field of an input."""
        choices = await self.choices(layouts.load(each.options)) if each.options else []
        kind = "text" if each.options and choices is None else each.kind
        shown = values.shown(kind, value)
        return Field(
            each.name, _PREFIX + each.name, each.label, kind, each.help, shown, each.is_required, choices or ()
        )


class TabHandler(FormHandler):
    """`/admin/<resource>/<id>/tab/<tab>`: tables of what belongs to an object."""

    tab_name: str = ""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the tables."""
        tab = self.layout.tab(self.tab_name)
        if tab is None:
            raise NotFound
        document = await self.load(object_id)
        panels = []
        for panel in tab.panels:
            headers = {TENANT_HEADER: document["tenantId"]} if "tenantId" in document else None
            request = ApiCall("GET", panel.path.format_map(document), filled(panel.query, document))
            response = await self.call_api("GET", request.path, request.query, headers=headers)
            rows = member_of(response.json(), panel.list) or [] if response.is_success else []
            if panel.expand:
                rows = [{**entry, "parent": row} for row in rows for entry in member_of(row, panel.expand) or []]
            panels.append((panel, rows, response.status, request, self.offered(panel.above, document)))
        row_actions = {panel.title: self.offered(panel.rows, document) for panel in tab.panels}
        names = await self.names_of([(panel, rows) for panel, rows, *_ in panels])
        return self.object_page(
            "tab.html",
            document,
            tab.title,
            panels=panels,
            row_actions=row_actions,
            names=names,
            member_of=member_of,
            row_path=self.row_path,
            references=_REFERENCES,
        )

    def offered(self, names: Sequence[str], document: Document) -> list[Action]:
        """Return the actions with these names that are offered."""
        found = (self.layout.action(name) for name in names)
        return [action for action in found if action is not None and self.is_offered(action, document)]

    async def names_of(self, panels: Sequence[tuple[layouts.Panel, Sequence[Document]]]) -> dict[str, dict[str, str]]:
        """Return the names of the objects that the rows refer to, by resource and id."""
        wanted: dict[str, set[str]] = {}
        for panel, rows in panels:
            for member in {column.member for column in panel.columns} & set(_REFERENCES):
                ids = (member_of(row, member) for row in rows)
                wanted.setdefault(_REFERENCES[member], set()).update(filter(None, ids))
        return {slug: await self.names(layouts.load(slug), ids) for slug, ids in wanted.items()}

    async def names(self, layout: layouts.Layout, ids: Collection[str]) -> dict[str, str]:
        """Return the names of objects, by id: of all if there are few, else of the first ids."""
        choices = await self.choices(layout)
        if choices is not None:
            return dict(choices)
        found = {}
        for object_id in sorted(ids)[:_MAXIMUM_NAMES]:
            answer = await self.find_json(f"{layout.path}/{object_id}")
            if layout.wrapper in answer:
                found[object_id] = layout.name_of(answer[layout.wrapper])
        return found

    def row_path(self, action: Action, document: Document, row: Mapping[str, Any], index: int) -> str:
        """Return the path of the page of an action on a row."""
        keys = {name: index if key == "#" else member_of(row, key) or "" for name, key in action.keys.items()}
        query = urllib.parse.urlencode(keys)
        return f"{self.screen_of(document['id'])}/{action.address}?{query}"


_REFERENCES: Final = {
    "applicationId": "applications",
    "groupId": "groups",
    "userId": "users",
    "identityProviderId": "identity-providers",
    "userActionId": "user-actions",
    "recipientEntityId": "entities",
}
"""Columns that hold the id of an object, with the resource that it belongs to."""


def _routes() -> Iterator[Route]:
    for slug in layouts.slugs():
        layout, arguments = layouts.load(slug), {"slug": slug, "section": slug}
        for tab in layout.tabs:
            path = f"{layout.screen}/{{object_id}}/tab/{tab.name}"
            yield Route(path, TabHandler, {**arguments, "tab_name": tab.name})
        for action in (each for each in layout.actions if not each.page):
            path = f"{layout.screen}/{{object_id}}/do/{action.name}"
            yield Route(path, ActionHandler, {**arguments, "action_name": action.name})


ROUTES = list(_routes())
