"""Layouts: how the generic screens arrange a resource of the API, one YAML file each.

Everything else about a resource (labels, help, constraints, errors) comes from its JSON Schema and from the API itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from identity.domain.objects.data_files import load_yaml

_FOLDER: Final = Path(__file__).resolve().parent / "layouts"


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a list: the dotted member, its heading, and the order that the API sorts by."""

    member: str
    heading: str
    order: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A group of fields of a form: dotted members below the object. `when` are members that the object must have."""

    title: str
    members: Sequence[str]
    lead: str = ""
    when: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """What a deletion removes as well: the number that an API call reports."""

    label: str
    path: str
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    total: str = "total"


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """A field of an action; `{name}` stands for its value in the call. `options` is the slug of its choices."""

    name: str
    label: str
    kind: str = "text"
    help: str = ""
    value: str = ""
    options: str = ""
    is_required: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Action:
    """A button of an object or of a row: the API call that it makes.

    Texts of `path`, `query` and `body` may contain `{member}`: members of the object, values of the `inputs`, those of
    the row as `keys` name them (`#` is its index), `me` (the administrator) and `secret` (a new random one). `when` are
    members that the object must have, with their values. `reveals` are secret members of the response, shown once.
    `page` is the end of the path of a page of its own, which makes the call.
    """

    name: str
    label: str
    method: str
    path: str
    explain: str
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: Any = None
    content_type: str = ""
    inputs: Sequence[Input] = ()
    when: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reveals: Sequence[str] = ()
    is_dangerous: bool = False
    in_tab: str = ""
    done: str = "done"
    page: str = ""

    @property
    def address(self) -> str:
        """The end of the path of its page."""
        return self.page or f"do/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Panel:
    """A table of a tab: the API call, the dotted member of its response with the rows, and the columns.

    `rows` are the names of actions with a button in each row, `above` those above the table. `expand` is a list in each
    object: the rows are its entries, each with the object as `parent`.
    """

    title: str
    path: str
    list: str
    columns: Sequence[Column]
    empty: str
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rows: Sequence[str] = ()
    above: Sequence[str] = ()
    expand: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Tab:
    """A tab of an object."""

    name: str
    title: str
    panels: Sequence[Panel]


@dataclasses.dataclass(frozen=True, slots=True)
class ListPage:
    """A page of its own with a button above the list: the end of its path, and the API call that it makes.

    `keeps_filters` passes the filters of the list on.
    """

    name: str
    label: str
    method: str
    path: str
    keeps_filters: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Preset:
    """A kind of new object: values that fit it, and the members that its form asks for."""

    name: str
    title: str
    explain: str
    values: Mapping[str, Any]
    members: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The screens of one resource; `slug` is the end of their path below /admin.

    `wrapper` and `plural` are the names of the object and of the list in JSON. `name` are the members that can name an
    object, the first one with a value does. `text` is the search parameter that the search box fills; without
    `has_search` the list is filtered here. `is_index` marks an index search (`queryString`, `sortFields`).
    `is_single` marks an object without an id and a list, `has_items` a list of objects that have a page each. `fixed`
    are parameters of every search, `text` is empty if there is none to type. `references` are members that hold the id
    of another resource, with its slug. `secrets` are shown on demand; `matrix` are members with permissions, `images`
    those with `data:` URLs, for which a form uploads files, `steps` those with steps of form fields.
    `sections` are references whose choices are shown in sections, with the slug of their titles. `outside` are members
    of requests next to the object, with the member of the object that has the same objects by key. `is_tenant_specific`
    marks a form that has other fields or choices in another tenant.
    `preview` labels the button that shows what the values of a form result in.
    """

    slug: str
    title: str
    singular: str
    path: str
    wrapper: str
    plural: str
    schema: str
    lead: str
    empty: str
    columns: Sequence[Column]
    groups: Sequence[Group]
    name: Sequence[str] = ("name",)
    text: str = "name"
    filters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    order: str = ""
    has_search: bool = True
    is_index: bool = False
    verbs: frozenset[str] = frozenset({"create", "update", "delete"})
    update: str = "PATCH"
    list_path: str = ""
    create_path: str = ""
    is_tenant_scoped: bool = False
    references: Mapping[str, str] = dataclasses.field(default_factory=dict)
    secrets: Sequence[str] = ()
    code: Sequence[str] = ()
    images: Sequence[str] = ()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    creation: Sequence[str] = ()
    delete_query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    removes: Sequence[Count] = ()
    export: str = ""
    list_pages: Sequence[ListPage] = ()
    preview: str = ""
    is_single: bool = False
    has_items: bool = True
    fixed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    matrix: Sequence[str] = ()
    steps: Sequence[str] = ()
    sections: Mapping[str, str] = dataclasses.field(default_factory=dict)
    outside: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_tenant_specific: bool = False
    presets: Sequence[Preset] = ()
    pages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tabs: Sequence[Tab] = ()
    actions: Sequence[Action] = ()

    def name_of(self, document: Mapping[str, Any]) -> str:
        """Return the name of an object; its id without one."""
        found = (str(value) for member in self.name if (value := member_of(document, member)))
        return next(found, str(document.get("id", "")))

    def path_of(self, member: str) -> str:
        """Return the path of a member in requests and in their errors."""
        return member if member in self.outside else f"{self.wrapper}.{member}"

    def body(self, document: Any) -> dict[str, Any]:
        """Return the body of a request with this object."""
        if not isinstance(document, Mapping):
            return {self.wrapper: document}
        outside = {name: document[name] for name in self.outside if name in document}
        return {self.wrapper: {name: value for name, value in document.items() if name not in outside}, **outside}

    def from_answer(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object of a response, with the ids that requests have outside of it."""
        found = answer[self.wrapper]
        ids = {
            name: [each["id"] for listed in (found.get(source) or {}).values() for each in listed]
            for name, source in self.outside.items()
        }
        return {**found, **ids}

    def action(self, name: str) -> Action | None:
        """Return an action by its name."""
        return next((action for action in self.actions if action.name == name), None)

    def preset(self, name: str) -> Preset | None:
        """Return a kind of new objects by its name."""
        return next((preset for preset in self.presets if preset.name == name), None)

    def tab(self, name: str) -> Tab | None:
        """Return a tab by its name."""
        return next((tab for tab in self.tabs if tab.name == name), None)

    @property
    def search_path(self) -> str:
        """The API path of the list."""
        return self.list_path or (f"{self.path}/search" if self.has_search else self.path)

    @property
    def screen(self) -> str:
        """The path of the list."""
        return f"/admin/{self.slug}"


@functools.cache
def load(slug: str) -> Layout:
    """Return the layout of a resource."""
    given = load_yaml(__file__, f"layouts/{slug}.yaml")
    given["columns"] = [Column(**column) for column in given["columns"]]
    given["groups"] = [Group(**group) for group in given.get("groups", [])]
    given["removes"] = [Count(**count) for count in given.get("removes", [])]
    given["tabs"] = [_tab(**tab) for tab in given.get("tabs", [])]
    given["list_pages"] = [ListPage(**each) for each in given.get("list_pages", [])]
    given["presets"] = [Preset(**preset) for preset in given.get("presets", [])]
    given["actions"] = [_action(**action) for action in given.get("actions", [])]
    if "verbs" in given:
        given["verbs"] = frozenset(given["verbs"])
    return Layout(slug=slug, **given)


def _tab(name: str, title: str, panels: Sequence[dict[str, Any]]) -> Tab:
    found = [Panel(**{**panel, "columns": [Column(**column) for column in panel["columns"]]}) for panel in panels]
    return Tab(name, title, found)


def _action(**given: Any) -> Action:
    return Action(**{**given, "inputs": [Input(**each) for each in given.get("inputs", ())]})


@functools.cache
def slugs() -> tuple[str, ...]:
    """Return the slugs of all layouts."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.yaml")))


def member_of(document: Any, path: str) -> Any:
    """Return a dotted member of a document; None without it."""
    for step in path.split("."):
        if not isinstance(document, Mapping):
            return None
        document = document.get(step)
    return document


def with_member(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the document with a dotted member replaced; None removes it."""
    step, _, rest = path.partition(".")
    if rest:
        inner = document.get(step)
        value = with_member(inner if isinstance(inner, Mapping) else {}, rest, value)
    kept = {name: member for name, member in document.items() if name != step}
    return kept if value is None else {**kept, step: value}
