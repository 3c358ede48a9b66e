"""Verify the CAPTCHA token of a form at its provider."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

import orjson

from identity.call import Call, Document
from identity.domain.captcha import captchas
from identity.domain.captcha.captchas import Verdict, Widget
from identity.ids import TenantId
from identity.operations.objects import event_logs
from identity.outbound.http import OutboundError, Request
from identity.services import Services

TIMEOUT_MS: Final = 3000
_OK: Final = 200


async def find_problem(services: Services, call: Call, tenant: Document, form: Mapping[str, str]) -> str:
    """Return the key of the page text that rejects a form; empty if its CAPTCHA passes or the tenant has none.

    If the provider does not respond the form is rejected, and the event log has the reason. The provider receives
    neither the address nor the login id of the user.
    """
    widget, token = captchas.find_widget(tenant), form.get(captchas.FIELD, "")
    if widget is None:
        return ""
    if problem := captchas.token_problem(token):
        return problem
    verdict = await _verify(services, tenant["captchaConfiguration"], widget, token)
    if verdict.note:
        tenant_id = TenantId(tenant["id"])
        message = f"CAPTCHA of tenant {tenant_id} ({widget.method}): {verdict.note}"
        await event_logs.debug(services, call.within(tenant_id), tenant_id, "captcha", message, "Error")
    return verdict.message


async def _verify(services: Services, settings: Document, widget: Widget, token: str) -> Verdict:
    form = {"secret": settings["secretKey"], "response": token}
    if widget.provider.sends_site_key:
        form["sitekey"] = widget.site_key
    request = Request(
        method="POST",
        url=widget.provider.verification_url,
        headers={"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
        body=urllib.parse.urlencode(form).encode(),
        connect_timeout_ms=TIMEOUT_MS,
        read_timeout_ms=TIMEOUT_MS,
    )
    try:
        response = await services.outbound.http.request(request)
    except OutboundError as error:
        return Verdict(captchas.UNAVAILABLE, error.message)
    if response.status != _OK or response.truncated:
        return Verdict(captchas.UNAVAILABLE, f"the provider responded with status {response.status}")
    try:
        body: Any = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        return Verdict(captchas.UNAVAILABLE, "the response of the provider is not a JSON object")
    return captchas.evaluate(body, widget.method, settings["threshold"])
