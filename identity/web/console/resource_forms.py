"""The screens that create and edit an object, with a form made from the schema of its resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.web.console import layouts, values
from identity.web.console.resource_handlers import READ_ONLY, TENANT_FIELD, TENANT_HEADER, FormHandler
from identity.web.console.snippets import ApiCall
from identity.web.endpoint import Access, Reply, Tenancy, endpoint


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
        if errors or self.is_draft():
            return await self.form_page(document, errors, api_call=api_call)
        response = await self.make_call(api_call)
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
        return ApiCall("POST", path, body=self.layout.body(document), headers=headers)

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
            is_changed=self.method == "POST",
            tenants=await self.tenants(),
            tenant_id=self.tenant_of({}),
            submit=f"Create {self.layout.singular}",
            preview={"kind": self.parameter("kind")},
            api_call=api_call.masked(self.layout.wrapper, [*self.layout.secrets, *self.layout.images]),
        )

    async def tenants(self) -> list[tuple[str, str]] | None:
        """Return the tenants that an object can be created in, [] without a choice; None if there are too many."""
        authority = self.administrator.authority
        if not self.layout.is_tenant_scoped or (authority is not None and authority.tenant_id is not None):
            return []
        found = await self.choices(layouts.load("tenants"))
        return [] if found is not None and len(found) == 1 else found


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
        if errors or self.is_draft():
            return await self.form_page(stored, document, errors, api_call=api_call)
        response = await self.make_call(api_call)
        if not response.is_success:
            groups = await self.form_groups(document)
            by_path, general = self.errors_of(response, groups)
            return await self.form_page(stored, document, by_path, general, api_call)
        return self.redirect_to(self.screen_of(object_id), done="saved")

    def change(self, stored: Document, document: Document) -> ApiCall:
        """Return the API call that stores a changed document: with PATCH the changed members only."""
        path = self.item_path(stored["id"])
        if self.layout.update == "PUT":
            kept = {name: value for name, value in document.items() if name not in READ_ONLY}
            return ApiCall("PUT", path, body=self.layout.body(kept))
        patch = values.difference(stored, document)
        return ApiCall("PATCH", path, body=self.layout.body(patch), headers={"Content-Type": patches.MERGE_PATCH})

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
            is_changed=self.method == "POST",
            tenants=[],
            tenant_id="",
            submit="Save changes",
            preview={"id": stored["id"]},
            api_call=api_call.masked(self.layout.wrapper, [*self.layout.secrets, *self.layout.images]),
        )


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
