"""`/admin/<resource>/preview`: what the values of a form result in, shown in a frame of the form.

The response has a policy of its own without scripts, so that untrusted markup, such as that of an email template, can
be rendered with its styles.
"""

from __future__ import annotations

import abc
import json
from typing import Any, ClassVar, Final

from identity.call import Call, Document
from identity.domain.configuration import theme_images
from identity.domain.configuration import themes as theme_rules
from identity.domain.lambdas import lambdas as lambda_rules
from identity.ids import parse_id
from identity.operations.lambdas import lambdas
from identity.web.base_handlers import Route
from identity.web.console import render
from identity.web.console.resource_handlers import FormHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import render as hosted_render
from identity.web.hosted.page_theme import PageTheme
from identity.web.hosted.render import LoginForm

_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'self';"
    " base-uri 'none'; form-action 'none'"
)
_HEADERS: Final = {**render.HEADERS, "Content-Security-Policy": _POLICY, "X-Frame-Options": "SAMEORIGIN"}
_SAMPLE: Final = "console.sample"


class PreviewHandler(FormHandler):
    """The preview of one resource. It stores nothing."""

    api_path: ClassVar[str]
    """The endpoint whose permission the preview requires."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def post(self, call: Call) -> Reply:
        """Render the values of the form."""
        if not self.may("POST", self.api_path):
            return self.forbidden()
        object_id = parse_id(self.parameter("id"))
        stored = await self.load(object_id) if object_id else self.defaults()
        document, errors = await self.submitted(stored, is_new=not object_id)
        if errors:
            return self.preview_page(errors=[message for found in errors.values() for message in found])
        return await self.preview(call, document)

    @abc.abstractmethod
    async def preview(self, call: Call, document: Document) -> Reply:
        """Return the preview of an object."""

    def preview_page(self, **values: Any) -> Reply:
        """Return a page for the frame: `errors`, `facts` (pairs), `texts` (title and text), and `html`."""
        empty: dict[str, Any] = {"errors": [], "facts": [], "texts": [], "html": ""}
        return Reply(render.fragment("preview.html", **{**empty, **values}), headers=_HEADERS)


class TemplatePreviewHandler(PreviewHandler):
    """An email or message template, rendered by the API for an example user."""

    async def preview(self, call: Call, document: Document) -> Reply:
        """See the base class."""
        response = await self.call_api("POST", self.api_path, body={self.layout.wrapper: document})
        answer = response.json()
        found = [*answer.get("fieldErrors", {}).values(), *answer.get("errors", {}).get("fieldErrors", {}).values()]
        errors = [error["message"] for each in found for error in each]
        mail, message = answer.get("email", {}), answer.get("message", {})
        sender = mail.get("from", {})
        facts = [
            ("From", " ".join(filter(None, (sender.get("display"), sender.get("address"))))),
            ("Subject", mail.get("subject")),
            ("To", message.get("phoneNumber")),
        ]
        return self.preview_page(
            errors=errors,
            facts=[fact for fact in facts if fact[1]],
            texts=[("Text", text) for text in (mail.get("text"), message.get("textMessage")) if text],
            html=mail.get("html", ""),
        )


class EmailPreviewHandler(TemplatePreviewHandler):
    """An email template."""

    slug = section = "email-templates"
    api_path = "/api/email/template/preview"


class MessagePreviewHandler(TemplatePreviewHandler):
    """A message template."""

    slug = section = "message-templates"
    api_path = "/api/message/template/preview"


class ThemePreviewHandler(PreviewHandler):
    """A theme: the login page with its colors and texts, and what is hard to read."""

    slug = section = "themes"
    api_path = "/api/theme"

    async def preview(self, call: Call, document: Document) -> Reply:
        """See the base class."""
        theme = {"type": "advanced", **document, "id": theme_rules.DEFAULT_ID}
        if problems := [error.message for error in theme_rules.problems(theme)]:
            return self.preview_page(errors=problems)
        texts = PageTheme(theme, ("en",))
        texts.stylesheet = None
        page = hosted_render.login(LoginForm("Example application", "", (), "", register="#", forgot="#"), texts)
        assert isinstance(page.body, bytes)
        # The style must not end its element; "<\/" is the same string in CSS.
        style = theme_rules.stylesheet(theme).replace("</", "<\\/")
        head = f"<style>{style}</style></head>".encode()
        notices = render.fragment("preview_notices.html", notices=theme_rules.notices(theme))
        body = page.body.replace(b"</head>", head, 1).replace(b"</body>", notices + b"</body>", 1)
        # The images are not stored yet, so that their paths do not exist.
        for kind, (_, url) in theme_images.urls(theme).items():
            if (image := theme_images.images(theme).get(kind)) is not None:
                body = body.replace(f"/theme/{theme['id']}/{image.name}".encode(), url.encode())
        return Reply(body, headers=_HEADERS)


class LambdaPreviewHandler(PreviewHandler):
    """A lambda: a run on example arguments, or on those of the form. It checks the syntax as well."""

    slug = section = "lambdas"
    api_path = "/api/lambda"

    async def preview(self, call: Call, document: Document) -> Reply:
        """See the base class."""
        kind, body, sample = document.get("type"), document.get("body"), self.field(_SAMPLE).strip()
        if kind not in lambda_rules.FUNCTIONS or not body:
            return self.preview_page(errors=["Choose a type and enter a body."])
        arguments = None
        if sample:
            try:
                arguments = json.loads(sample)
            except (ValueError, RecursionError) as error:
                return self.preview_page(errors=[f"The arguments are not JSON: {error}."])
            if not isinstance(arguments, list):
                return self.preview_page(errors=["The arguments must be a JSON list."])
        run = await lambdas.try_out(self.services, str(kind), str(body), arguments)
        texts = [("Console", run.printed)] if run.printed else []
        if run.returned is not None:
            texts.append(("Arguments after the run", _indented(run.returned)))
        texts.append(("Arguments before the run", _indented(run.arguments)))
        return self.preview_page(errors=[run.problem] if run.problem else [], texts=texts)


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


_HANDLERS: Final = (EmailPreviewHandler, MessagePreviewHandler, ThemePreviewHandler, LambdaPreviewHandler)

ROUTES = [Route(f"/admin/{handler.slug}/preview", handler) for handler in _HANDLERS]
