"""The table of declared resources: each row is a complete API."""

from __future__ import annotations

from identity.domain.configuration import feature_settings
from identity.domain.objects.resource_definition import CREATE_TO_SEARCH, Resource, SearchRules, Unique
from identity.domain.objects.stored_credentials import Credential
from identity.operations.configuration import ip_access_control_lists, themes
from identity.operations.forms import form_fields, forms
from identity.operations.users import consents
from identity.operations.webhooks import webhooks

IP_ACCESS_CONTROL_LIST = Resource(
    "ipAccessControlList",
    path="/api/ip-acl",
    label="IP access control list",
    tenant_scoped=False,
    unique=(Unique("name", ("name",), "ipAccessControlList.name"),),
    search_rules=SearchRules(
        {"name": "text"},
        {"id": "_id", "insertInstant": "insertInstant", "lastUpdateInstant": "lastUpdateInstant", "name": "name"},
    ),
    prepare=ip_access_control_lists.prepare,
    feature=feature_settings.THREAT_DETECTION,
)

USER_ACTION_REASON = Resource(
    "userActionReason",
    tenant_scoped=False,
    verbs=CREATE_TO_SEARCH - {"search"},
    unique=(
        Unique("code", ("code",), "userActionReason.code"),
        Unique("text", ("text",), "userActionReason.text"),
    ),
)

WEBHOOK = Resource(
    "webhook",
    tenant_scoped=False,
    sealed=("headers.*", "httpAuthenticationPassword", "private.secret", "private.previousSecrets.*.secret"),
    credentials=(
        Credential("headers.*", ("url",)),
        Credential("httpAuthenticationPassword", ("httpAuthenticationUsername", "url")),
    ),
    # Webhooks have no member `name`, the published default order: it is an alias of `description`.
    search_rules=SearchRules(
        {"description": "text", "url": "text", "tenantId": "tenants"},
        {
            "description": "description",
            "id": "_id",
            "insertInstant": "insertInstant",
            "name": "description",
            "url": "url",
        },
        default="insertInstant DESC, id DESC",
    ),
    prepare=webhooks.prepare,
)

RESOURCES = (
    consents.RESOURCE,
    # Before forms, whose paths include those of the fields.
    form_fields.RESOURCE,
    forms.RESOURCE,
    IP_ACCESS_CONTROL_LIST,
    themes.RESOURCE,
    USER_ACTION_REASON,
    WEBHOOK,
)
