"""`/admin/users/<id>/registration`: registers a user for an application, and changes a registration.

The form `formConfiguration.adminRegistrationFormId` of the application decides which fields it has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.errors import NotFound
from identity.ids import parse_id
from identity.web.base_handlers import Route
from identity.web.console import admin_forms, layouts, values
from identity.web.console.admin_forms import Arrangement
from identity.web.console.forms import Field, Options
from identity.web.console.layouts import Group
from identity.web.console.resource_handlers import TENANT_HEADER, FormHandler
from identity.web.console.snippets import ApiCall
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_LAYOUT: Final = dataclasses.replace(
    layouts.load("users"),
    wrapper="registration",
    schema="api/registration.json",
    groups=[
        Group("Registration", ["username", "roles", "preferredLanguages", "timezone"]),
        Group("Your data", ["data"]),
    ],
    references={"roles": "roles"},
    is_tenant_specific=False,
)
_APPLICATION: Final = "applicationId"


class RegistrationHandler(FormHandler):
    """`/admin/users/<id>/registration`; the query names the application."""

    slug = "users"
    section = "users"
    registered_application: Document

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the form with the current values; without an application, ask for it."""
        user = await self.load(object_id)
        if not self.parameter(_APPLICATION):
            return await self.application_page(user)
        stored = await self.open_registration(user)
        return await self.registration_page(user, stored, stored or {}, {})

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={200: "text/html", 303: None})
    async def post(self, call: Call, object_id: str) -> Reply:
        """Register the user, or store what was changed."""
        user = await self.load(object_id)
        stored = await self.open_registration(user)
        document, errors = await self.submitted(stored or {}, is_new=stored is None)
        if errors or self.is_draft():
            return await self.registration_page(user, stored, document, errors)
        request = self.request_of(user, stored, document)
        response = await self.make_call(request)
        if not response.is_success:
            by_path, general = self.errors_of(response, await self.form_groups(document, is_new=stored is None))
            return await self.registration_page(user, stored, document, by_path, general)
        return self.redirect_to(f"{self.screen_of(object_id)}/tab/registrations", done="saved")

    async def open_registration(self, user: Document) -> Document | None:
        """Load the application, and return the registration of the user, if any. Raises ApiError and NotFound."""
        application_id = parse_id(self.parameter(_APPLICATION))
        if application_id is None:
            raise NotFound
        found = await self.get_json(f"/api/application/{application_id}", headers={TENANT_HEADER: user["tenantId"]})
        self.registered_application = found["application"]
        registrations = user.get("registrations", [])
        return next((each for each in registrations if each[_APPLICATION] == application_id), None)

    async def arranged(self, document: Document) -> Arrangement:
        """Return the fields of the form of the application."""
        form_id = layouts.member_of(self.registered_application, "formConfiguration.adminRegistrationFormId")
        schema = self.services.schemas[_LAYOUT.schema].schema
        return await admin_forms.arrange(self.services, form_id, _LAYOUT, schema)

    async def reference_options(self, document: Document | None = None) -> Options:
        """Return the roles of the application, which registrations have by name."""
        return {"roles": [(role["name"], role["name"]) for role in self.registered_application["roles"]]}

    def request_of(self, user: Document, stored: Document | None, document: Document) -> ApiCall:
        """Return the API call that registers the user or changes the registration."""
        path, application_id = f"/api/user/registration/{user['id']}", self.registered_application["id"]
        headers = {TENANT_HEADER: user["tenantId"]}
        if stored is None:
            body = {**values.without_empty(document), _APPLICATION: application_id}
            return ApiCall("POST", path, body={"registration": body}, headers=headers)
        body = {**values.difference(stored, document), _APPLICATION: application_id}
        return ApiCall(
            "PATCH", path, body={"registration": body}, headers={**headers, "Content-Type": patches.MERGE_PATCH}
        )

    async def application_page(self, user: Document) -> Reply:
        """Return the page that asks for an application for which the user is not registered yet."""
        registered = {each[_APPLICATION] for each in user.get("registrations", [])}
        found = await self.applications(user["tenantId"])
        choices = [(each["id"], each["name"]) for each in found or () if each["id"] not in registered]
        kind = "text" if found is None else "select"
        field = Field(_APPLICATION, _APPLICATION, "Application", kind, is_required=True, choices=choices)
        return self.object_page("register.html", user, "", field=field)

    async def registration_page(
        self,
        user: Document,
        stored: Document | None,
        document: Document,
        errors: Mapping[str, Sequence[str]],
        general: Sequence[str] = (),
    ) -> Reply:
        """Return the form with these values."""
        frame: dict[str, Any] = {"layout": _LAYOUT, "tenants": [], "tenant_id": "", "preview": {}}
        return self.object_page(
            "registration.html",
            user,
            "",
            400 if errors or general else 200,
            groups=await self.form_groups(document, errors, is_new=stored is None),
            general=general,
            is_changed=self.method == "POST",
            application=self.registered_application,
            submit="Register" if stored is None else "Save changes",
            api_call=self.request_of(user, stored, document),
            **frame,
        )


ROUTES = [Route("/admin/users/{object_id}/registration", RegistrationHandler)]
