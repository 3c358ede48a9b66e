"""The journey's first half: an administrator sets up and manages the objects of an instance."""

from __future__ import annotations

from typing import Any

from identity.ids import new_id
from tests.clients.journeys.clients import Answer, Journey
from tests.oauth2.devices import DEVICE_GRANT

Document = dict[str, Any]

_VOLATILE = {"lastUpdateInstant"}
_ROWS = {"numberOfResults": 25, "startRow": 0}
ISSUER = "acme.com"
"""The issuer of the published examples, which all their tenants share."""


async def manage(
    call: Journey,
    kind: str,
    wanted: Document,
    change: Document,
    *,
    member: str = "",
    parameter: str = "",
    listed: bool = True,
) -> Answer:
    """Create, read, list, patch and replace an object, as consoles and infrastructure tools do; return it."""
    member = member or kind[0].lower() + kind[1:]
    parameter = parameter or f"{member}Id"
    created = (await call(f"create{kind}", **{parameter: None, "request": {member: wanted}}))[member]
    identified = {parameter: created["id"]}
    read = (await call(f"retrieve{kind}", **identified))[member]
    call.differences += [f"{member}.{path}" for path in differences(wanted, read)]
    if listed:
        await call(f"retrieve{kind}s")
    patched = (await call(f"patch{kind}", **identified, request={member: change}))[member]
    current = patched or read
    updated = (await call(f"update{kind}", **identified, request={member: current}))[member]
    call.differences += [
        f"{member}.{path} after an update" for path in differences(current, updated) if path not in _VOLATILE
    ]
    return Answer(updated)


def differences(wanted: Document, read: Document) -> list[str]:
    """Return the paths of the members that were written and are read with another value.

    Infrastructure tools plan a change for each of them. They compare lists of strings as sets.
    """
    found = []
    for name, value in wanted.items():
        other = read.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            found += [f"{name}.{path}" for path in differences(value, other)]
        elif isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
            ordered = [
                sorted(items, key=str) if isinstance(items[0], str) else items for items in (value, other) if items
            ]
            items = [({str(at): one}, {str(at): two}) for at, (one, two) in enumerate(zip(*ordered, strict=True))]
            found += [f"{name}.{path}" for one, two in items for path in differences(one, two)]
        elif value != other:
            found.append(name)
    return found


async def search(call: Journey, method: str, **criteria: Any) -> Answer:
    """Search with a request."""
    return await call(method, request={"search": {**criteria, **_ROWS}})


async def templates(call: Journey) -> Answer:
    """Manage email templates, message templates and themes; return the email template."""
    mail = {
        "name": f"Verification {new_id()}", "fromEmail": "no-reply@example.com", "defaultFromName": "Acme",
        "defaultSubject": "Verify your email", "defaultHtmlTemplate": "<p>Hello ${user.firstName!''}</p>",
        "defaultTextTemplate": "Hello ${user.firstName!''}", "localizedSubjects": {"de": "E-Mail verifizieren"},
    }  # fmt: skip
    template = await manage(call, "EmailTemplate", mail, {"localizedSubjects": {"fr": "Vérifiez"}})
    await search(call, "searchEmailTemplates", name=template["name"], orderBy="name ASC")
    await call("retrieveEmailTemplatePreview", request={"emailTemplate": mail, "locale": "de"})
    message = {"name": f"Code {new_id()}", "type": "SMS", "defaultTemplate": "Your code is ${code}"}
    await manage(call, "MessageTemplate", message, {"localizedTemplates": {"de": "Ihr Code ist ${code}"}})
    await call("retrieveMessageTemplatePreview", request={"messageTemplate": message, "locale": "de"})
    theme = await manage(call, "Theme", {"name": f"Theme {new_id()}", "stylesheet": "h1 {}"}, {"data": {"a": 1}})
    copied = {"sourceThemeId": theme["id"], "theme": {"name": f"Copy {new_id()}"}}
    copy = (await call("createTheme", themeId=None, request=copied))["theme"]
    other = {"name": f"Other {new_id()}", "type": "SMS", "defaultTemplate": "Hello"}
    message_id = (await call("createMessageTemplate", messageTemplateId=None, request={"messageTemplate": other}))[
        "messageTemplate"
    ]["id"]
    await call("deleteMessageTemplate", messageTemplateId=message_id)
    other = {"emailTemplate": {**mail, "name": f"Other {new_id()}"}}
    template_id = (await call("createEmailTemplate", emailTemplateId=None, request=other))["emailTemplate"]["id"]
    await call("deleteEmailTemplate", emailTemplateId=template_id)
    await search(call, "searchThemes", name="*Theme*", type="advanced")
    for theme_id in (theme["id"], copy["id"]):
        await call("deleteTheme", themeId=theme_id)
    return template


async def messages(call: Journey, url: str) -> Document:
    """Manage messengers; return the tenant's settings for text messages."""
    generic = {
        "name": f"Generic {new_id()}",
        "type": "Generic",
        "url": url,
        "connectTimeout": 1000,
        "readTimeout": 2000,
    }
    messenger = await manage(call, "Messenger", generic, {"debug": True})
    account = {
        "accountSID": "AC983",
        "authToken": "secret",
        "fromPhoneNumber": "+15555551212",
        "url": "https://api.twilio.com",
    }
    twilio = {"name": f"Twilio {new_id()}", "type": "Twilio", **account}
    second = (await call("createMessenger", messengerId=None, request={"messenger": twilio}))["messenger"]
    await call("deleteMessenger", messengerId=second["id"])
    text = {"name": f"SMS {new_id()}", "type": "SMS", "defaultTemplate": "Your code is ${code}"}
    template = (await call("createMessageTemplate", messageTemplateId=None, request={"messageTemplate": text}))[
        "messageTemplate"
    ]
    return {"enabled": True, "messengerId": messenger["id"], "templateId": template["id"]}


async def keys(call: Journey) -> Document:
    """Generate, import, read and delete keys; return the ids of those that remain, by algorithm."""
    made = {}
    for algorithm, length in (("RS256", 2048), ("ES256", None), ("HS256", None)):
        wanted = {"name": f"{algorithm} {new_id()}", "algorithm": algorithm, "issuer": ISSUER, "length": length}
        request = {"key": {name: value for name, value in wanted.items() if value is not None}}
        made[algorithm] = (await call("generateKey", keyId=None, request=request))["key"]["id"]
    secret = {"name": f"Imported {new_id()}", "type": "HMAC", "algorithm": "HS512", "secret": "secret" * 12}
    imported = (await call("importKey", keyId=None, request={"key": secret}))["key"]["id"]
    await call("retrieveKeys")
    await call("retrieveKey", keyId=imported)
    await call("updateKey", keyId=imported, request={"key": {"name": f"Renamed {new_id()}"}})
    await search(call, "searchKeys", name="*RS256*", orderBy="name ASC")
    await call(
        "searchKeysByParameters",
        algorithm="RS256",
        name=None,
        numberOfResults=5,
        orderBy="name ASC",
        startRow=0,
        type="RSA",
    )
    await call("deleteKey", keyId=imported)
    return made


async def tenants(call: Journey, key_ids: Document, settings: Document) -> Answer:
    """Create two tenants with one issuer, as the published examples do; return the first, which has the settings."""
    signing = {"accessTokenKeyId": key_ids["RS256"], "idTokenKeyId": key_ids["RS256"], "timeToLiveInSeconds": 3600}
    wanted = {"name": f"Acme {new_id()}", "issuer": ISSUER, "jwtConfiguration": signing, **settings}
    tenant = await manage(call, "Tenant", wanted, {"data": {"region": "eu"}})
    request = {"sourceTenantId": tenant["id"], "tenant": {"name": f"Copy {new_id()}"}}
    copy = (await call("createTenant", tenantId=None, request=request))["tenant"]
    await call("deleteTenant", tenantId=copy["id"])
    for method, more in (("deleteTenantAsync", {}), ("deleteTenantWithRequest", {"request": {"async": True}})):
        other = {"tenant": {"name": f"Other {new_id()}", "issuer": ISSUER}}
        tenant_id = (await call("createTenant", tenantId=None, request=other))["tenant"]["id"]
        await call(method, tenantId=tenant_id, **more)
    await search(call, "searchTenants", name="Acme*", orderBy="name ASC")
    await call("retrievePasswordValidationRulesWithTenantId", tenantId=tenant["id"])
    return tenant


async def lambdas(call: Journey) -> Answer:
    """Manage lambdas; return one that adds a claim to tokens."""
    body = "function populate(jwt, user, registration) { jwt.color = 'blue'; console.info('Populated'); }"
    wanted = {
        "name": f"Claims {new_id()}",
        "type": "JWTPopulate",
        "body": body,
        "debug": False,
        "engineType": "GraalJS",
    }
    made = await manage(call, "Lambda", wanted, {"debug": True})
    await call("retrieveLambdasByType", type="JWTPopulate")
    await search(call, "searchLambdas", name="Claims*", type="JWTPopulate")
    other = {**wanted, "name": f"Other {new_id()}"}
    other_id = (await call("createLambda", lambdaId=None, request={"lambda": other}))["lambda"]["id"]
    await call("deleteLambda", lambdaId=other_id)
    return made


async def applications(call: Journey, key_ids: Document, lambda_id: str, redirect_uri: str) -> Answer:
    """Manage an application, its roles and scopes; return it."""
    oauth = {
        "authorizedRedirectURLs": [redirect_uri], "authorizedOriginURLs": ["https://app.example.com"],
        "logoutURL": "https://app.example.com/logged-out",
        "generateRefreshTokens": True, "requireClientAuthentication": True,
        "enabledGrants": ["authorization_code", "refresh_token", "password", DEVICE_GRANT],
        "deviceVerificationURL": "https://app.example.com/device", "proofKeyForCodeExchangePolicy": "NotRequired",
    }  # fmt: skip
    tokens = {
        "enabled": True, "accessTokenKeyId": key_ids["ES256"], "idTokenKeyId": key_ids["RS256"],
        "timeToLiveInSeconds": 600, "refreshTokenTimeToLiveInMinutes": 43200,
        "refreshTokenExpirationPolicy": "Fixed", "refreshTokenUsagePolicy": "Reusable",
    }  # fmt: skip
    wanted = {
        "name": f"Forum {new_id()}", "oauthConfiguration": oauth, "jwtConfiguration": tokens,
        "lambdaConfiguration": {"accessTokenPopulateId": lambda_id, "idTokenPopulateId": lambda_id},
        "loginConfiguration": {"allowTokenRefresh": True, "generateRefreshTokens": True, "requireAuthentication": True},
        "passwordlessConfiguration": {"enabled": True}, "registrationConfiguration": {"enabled": True},
        "roles": [{"name": "admin", "isSuperRole": True}, {"name": "user", "isDefault": True}],
    }  # fmt: skip
    application = await manage(call, "Application", wanted, {"data": {"a": 1}})
    application_id = application["id"]
    role = (
        await call(
            "createApplicationRole", applicationId=application_id, roleId=None, request={"role": {"name": "moderator"}}
        )
    )["role"]
    named = {"applicationId": application_id, "roleId": role["id"]}
    await call("patchApplicationRole", **named, request={"role": {"description": "Moderates"}})
    await call("updateApplicationRole", **named, request={"role": {"name": "chief", "description": "Decides"}})
    await call("deleteApplicationRole", **named)
    scope = (
        await call(
            "createOAuthScope", applicationId=application_id, scopeId=None, request={"scope": {"name": "read:mail"}}
        )
    )["scope"]
    named = {"applicationId": application_id, "scopeId": scope["id"]}
    await call("retrieveOAuthScope", **named)
    await call("patchOAuthScope", **named, request={"scope": {"description": "Read mail"}})
    await call("updateOAuthScope", **named, request={"scope": {"name": "read:mail", "required": False}})
    await call("deleteOAuthScope", **named)
    await search(call, "searchApplications", name="Forum*", orderBy="name ASC")
    await call("retrieveOauthConfiguration", applicationId=application_id)
    await call("deactivateApplication", applicationId=application_id)
    await call("retrieveInactiveApplications")
    await call("reactivateApplication", applicationId=application_id)
    other = (
        await call("createApplication", applicationId=None, request={"application": {"name": f"Blog {new_id()}"}})
    )["application"]
    await call("deleteApplication", applicationId=other["id"])
    return Answer((await call("retrieveApplication", applicationId=application_id))["application"])


async def webhooks(call: Journey, url: str) -> None:
    """Manage a webhook, which receives the events of the journey."""
    events = {"user.create.complete": True, "user.login.success": True, "jwt.refresh": True}
    wanted = {"url": url, "connectTimeout": 1000, "readTimeout": 2000, "global": True, "eventsEnabled": events}
    hook = {
        **wanted,
        "description": f"Hook {new_id()}",
        "headers": {"X-From": "acme"},
        "httpAuthenticationUsername": "acme",
    }
    await manage(call, "Webhook", hook, {"eventsEnabled": {"user.delete.complete": True}})
    await search(call, "searchWebhooks", description="Hook*", url="127.0.0.1")
    criteria = {
        "description": "Hook",
        "numberOfResults": 5,
        "orderBy": "url ASC",
        "startRow": 0,
        "tenantId": call.tenant_id,
        "url": None,
    }
    await call("searchWebhooksByParameters", **criteria)
    other = await call(
        "createWebhook", webhookId=None, request={"webhook": {**wanted, "global": False, "tenantIds": [call.tenant_id]}}
    )
    await call("deleteWebhook", webhookId=other["webhook"]["id"])


async def api_keys(call: Journey, manager_key: str) -> None:
    """Manage API keys with the key of a key manager."""
    wanted = {
        "permissions": {"endpoints": {"/api/user": ["GET"]}},
        "metaData": {"attributes": {"description": "crawler"}},
    }
    made = (await call("createAPIKey", key=manager_key, keyId=None, request={"apiKey": wanted}))["apiKey"]
    named = {"key": manager_key, "keyId": made["id"]}
    await call("retrieveAPIKey", **named)
    await call("patchAPIKey", **named, request={"apiKey": {"name": f"Crawler {new_id()}"}})
    await call("updateAPIKey", **named, request={"apiKey": wanted})
    await call("deleteAPIKey", **named)


async def identity_providers(call: Journey, application_id: str) -> None:
    """Manage identity providers of several types, and links of users to them."""
    enabled = {application_id: {"enabled": True, "createRegistration": True}}
    oauth2 = {
        "issuer": "https://provider.example.com", "client_id": "client", "client_secret": "secret",
        "scope": "openid email", "authorization_endpoint": "https://provider.example.com/authorize",
        "token_endpoint": "https://provider.example.com/token", "userinfo_endpoint": "https://provider.example.com/userinfo",
    }  # fmt: skip
    domain = f"{new_id()}.example.com"
    wanted = {
        "type": "OpenIDConnect", "name": f"Provider {new_id()}", "enabled": True, "oauth2": oauth2,
        "buttonText": "Log in", "domains": [domain],
        "applicationConfiguration": enabled, "linkingStrategy": "LinkByEmail",
    }  # fmt: skip
    made = await manage(call, "IdentityProvider", wanted, {"debug": True, "type": "OpenIDConnect"})
    google = {
        "type": "Google",
        "client_id": "client",
        "client_secret": "secret",
        "buttonText": "Google",
        "enabled": True,
    }
    for provider in (
        google,
        {"type": "Facebook", "appId": "app", "client_secret": "secret", "buttonText": "Facebook", "enabled": True},
    ):
        social = {"identityProvider": {**provider, "applicationConfiguration": enabled}}
        social_id = (await call("createIdentityProvider", identityProviderId=None, request=social))["identityProvider"][
            "id"
        ]
        await call("retrieveIdentityProviderByType", type=provider["type"])
        await call("deleteIdentityProvider", identityProviderId=social_id)
    await call("lookupIdentityProvider", domain=domain)
    await call("lookupIdentityProviderByTenantId", domain=domain, tenantId=call.tenant_id)
    await search(call, "searchIdentityProviders", name="Provider*", type="OpenIDConnect")
    criteria = {"numberOfResults": 5, "orderBy": "name ASC", "startRow": 0, "tenantId": None, "type": "OpenIDConnect"}
    await call("searchIdentityProvidersByParameters", applicationId=application_id, name=None, **criteria)
    request = {"identityProviderId": made["id"], "tenantId": call.tenant_id}
    started = await call("startIdentityProviderConnectionTest", request=request)
    await call("retrieveIdentityProviderConnectionTestResults", connectionTestId=started["connectionTestId"])


async def connectors(call: Journey) -> None:
    """Manage a connector."""
    wanted = {
        "name": f"Connector {new_id()}", "type": "Generic", "authenticationURL": "https://users.example.com/login",
        "connectTimeout": 1000, "readTimeout": 2000, "debug": False, "headers": {"X-From": "acme"},
    }  # fmt: skip
    made = await manage(call, "Connector", wanted, {"debug": True, "type": "Generic"})
    await call("deleteConnector", connectorId=made["id"])


async def forms(call: Journey) -> None:
    """Manage form fields and forms."""
    wanted = {"name": f"Color {new_id()}", "key": "user.data.color", "type": "string", "control": "text"}
    field = await manage(call, "FormField", wanted, {"required": True}, member="field", parameter="fieldId")
    steps = {"name": f"Profile {new_id()}", "type": "selfServiceUser", "steps": [{"fields": [field["id"]]}]}
    form = await manage(call, "Form", steps, {"data": {"a": 1}})
    await call("deleteForm", formId=form["id"])
    await call("deleteFormField", fieldId=field["id"])


async def access_lists(call: Journey) -> None:
    """Manage an IP access control list."""
    entries = [
        {"startIPAddress": "*", "action": "Block"},
        {"startIPAddress": "10.0.0.1", "endIPAddress": "10.0.0.9", "action": "Allow"},
    ]
    wanted = {"ipAccessControlList": {"name": f"List {new_id()}", "entries": entries}}
    made = (await call("createIPAccessControlList", accessControlListId=None, request=wanted))["ipAccessControlList"]
    await call("retrieveIPAccessControlList", ipAccessControlListId=made["id"])
    change = {"ipAccessControlList": {"data": {"a": 1}}}
    await call("patchIPAccessControlList", accessControlListId=made["id"], request=change)
    await call("updateIPAccessControlList", accessControlListId=made["id"], request={"ipAccessControlList": made})
    await search(call, "searchIPAccessControlLists", name="List*")
    criteria = {"name": made["name"], "numberOfResults": 1, "orderBy": "name ASC", "startRow": 0}
    await call("searchIPAccessControlListsByParameters", **criteria)
    await call("deleteIPAccessControlList", ipAccessControlListId=made["id"])


async def system(call: Journey) -> None:
    """Read and change the configuration and state of the instance."""
    current = await call("retrieveSystemConfiguration")
    await call("patchSystemConfiguration", request={"systemConfiguration": {"data": {"a": 1}}})
    await call("updateSystemConfiguration", request=current)
    await call("retrieveIntegration")
    await call("patchIntegrations", request={"integrations": {"kafka": {"defaultTopic": "logins"}}})
    await call("updateIntegrations", request={"integrations": {}})
    await call("retrieveReactorStatus")
    await call("retrieveReactorMetrics")
    await call("activateReactor", request={"licenseId": "any"})
    await call("regenerateReactorKeys")
    await call("deactivateReactor")
    await call("reindex", request={"index": "fusionauth_user"})
    for method in (
        "retrieveSystemHealth", "retrieveSystemStatus", "retrieveSystemStatusUsingAPIKey", "retrieveVersion",
        "retrieveOpenIdConfiguration", "retrieveJsonWebKeySet", "retrieveJWTPublicKeys",
        "retrievePasswordValidationRules",
    ):  # fmt: skip
        await call(method)


async def logs(call: Journey) -> None:
    """Write and read the audit log, and search the logs of events and webhooks."""
    row = {"insertUser": "ada@example.com", "message": f"Maintenance {new_id()}", "reason": "Planned"}
    made = (await call("createAuditLog", request={"auditLog": row}))["auditLog"]
    await call("retrieveAuditLog", auditLogId=made["id"])
    await search(call, "searchAuditLogs", message="Maintenance", user="ada", orderBy="insertInstant DESC")
    found = await search(call, "searchEventLogs", orderBy="insertInstant DESC")
    for log in (found["eventLogs"] or [])[:1]:
        await call("retrieveEventLog", eventLogId=log["id"])
    found = await search(call, "searchWebhookEventLogs", orderBy="insertInstant DESC")
    logs_with_attempts = [log for log in found["webhookEventLogs"] or [] if log["attempts"]]
    for log in logs_with_attempts[:1]:
        await call("retrieveWebhookEventLog", webhookEventLogId=log["id"])
        await call("retrieveWebhookAttemptLog", webhookAttemptLogId=log["attempts"][0]["id"])
