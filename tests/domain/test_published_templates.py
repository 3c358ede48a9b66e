"""Published email and message templates render as HTML and as text."""

from __future__ import annotations

import pytest

from identity.domain.messaging import template_language as language

VALUES = {
    "application": {"name": "Shop", "oauthConfiguration": {"clientId": "c1"}},
    "baseUrl": "https://id.example.com",
    "changePasswordId": "cp1",
    "code": "code1",
    "event": {
        "info": {"deviceName": "Laptop", "ipAddress": "192.0.2.7", "location": {"city": "Bern", "latitude": 46.9}},
        "type": "UserLoginSuspicious",
    },
    "method": {"method": "sms", "name": "Private & work"},
    "state": {"redirect_uri": "https://shop.example.com/?a=1&b=2", "tenantId": "other", "empty": None},
    "tenant": {"id": "t1", "name": "Tenant"},
    "user": {"email": "ada+1@example.com", "firstName": "Ada", "tenantId": "t1", "verified": False},
    "verificationId": "v1",
    language.NOW: 1_709_209_800_000,
}

LINK = """[#ftl output_format="HTML"/]
[#setting url_escaping_charset="UTF-8"]
[#if user.verified]Already verified.[/#if]
[#-- A code is typed into a form,
     a link is clicked --]
[#if verificationOneTimeCode??]
<p>${verificationOneTimeCode}</p>
[#else]
[#assign url = "${baseUrl}/email/verify/${verificationId}?client_id=${(application.oauthConfiguration.clientId)!''}&tenantId=${tenant.id}" /]
[#list state!{} as key, value][#if key != "tenantId" && key != "client_id" && value??][#assign url = url + "&" + key?url + "=" + value?url/][/#if][/#list]
<a href="${url?html}">${url?html}</a>
[/#if]"""  # noqa: E501 (written as templates are)

CODE = """[#setting url_escaping_charset="UTF-8"]
[#if oneTimeCode??]
Code: ${oneTimeCode}
[#else]
[#assign url = "${baseUrl}/oauth2/passwordless/${code}?tenantId=${user.tenantId}" /]
${url}
[/#if]
${baseUrl}/password/forgot?client_id=${(application.oauthConfiguration.clientId)!''}&email=${user.email?url}"""

THREAT = """[#if event.type == "UserLoginSuspicious"]
Suspicious.
[#elseif event.type == "UserLoginNewDevice"]
New device.
[#else]
Unusual.
[/#if]
* Name: ${(event.info.deviceName)!'&mdash;'}
* Agent: ${(event.info.userAgent)!'-'}
* Zip: ${(event.info.location.zipcode)!'&mdash;'}
* Place: ${(event.info.location.latitude)!'-'}/${(event.info.location.longitude)!'-'}"""

METHOD = (
    'Your ${(method.method == "sms")?then("SMS", method.method)} method'
    "[#if method.name?has_content], ${method.name},[/#if] was removed from ${user.email}."
)

LAYOUT = """[#ftl/]
[#macro mail title="Hello" footer=true]
<h1>${title}</h1>[#nested/]
[#if footer]<small>&copy; ${.now?string("yyyy")} ${tenant.name}</small>[/#if]
[/#macro]
[#macro button url text]<a class="button" href="${url}">${text}</a>[/#macro]
[@mail title="Welcome, ${user.firstName!'friend'?cap_first}"]
  [@button url="${baseUrl}/account?client_id=${application.oauthConfiguration.clientId}" text="Open"/]
  [#list ["Profile", "Security"] as item]${item?counter}. ${item}[#sep]; [/#sep][/#list]
[/@mail]"""


@pytest.mark.requirement("audit-b5-templates")
@pytest.mark.parametrize("html", [True, False])
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            LINK,
            "v1?client_id=c1&amp;tenantId=t1&amp;redirect_uri=https%3A%2F%2Fshop.example.com%2F%3Fa%3D1%26b%3D2",
        ),
        (CODE, "https://id.example.com/oauth2/passwordless/code1?tenantId=t1"),
        (CODE, "client_id=c1&email=ada%2B1%40example.com"),
        (THREAT, "Suspicious."),
        (THREAT, "* Name: Laptop\n* Agent: -\n* Zip: &mdash;\n* Place: 46.9/-"),
        (METHOD, "Your SMS method, Private"),
        (LAYOUT, "<h1>Welcome, Ada</h1>"),
        (LAYOUT, '<a class="button" href="https://id.example.com/account?client_id=c1">Open</a>'),
        (LAYOUT, "1. Profile; 2. Security"),
        (LAYOUT, "&copy; 2024 Tenant"),
    ],
)
def test_published_style_renders(template: str, expected: str, html: bool) -> None:
    found = language.render(template, VALUES, html=html)
    shown = found.replace("&amp;email", "&email") if "&email" in expected else found
    assert expected in shown
    assert "[#" not in found
    assert "${" not in found


@pytest.mark.requirement("audit-b5-templates")
@pytest.mark.parametrize("template", [LINK, CODE, THREAT, METHOD, LAYOUT])
def test_published_style_can_be_previewed(template: str) -> None:
    known = {name: VALUES[name] for name in ("application", "tenant", "user", language.NOW)}
    assert language.render(template, known, html=True, preview=True)
