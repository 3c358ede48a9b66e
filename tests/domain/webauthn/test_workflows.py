"""Effective settings of a workflow, from tenant and application."""

from __future__ import annotations

import itertools

import pytest

from identity.domain.webauthn import credentials, workflows
from identity.domain.webauthn.workflows import Workflow
from tests.builders import make_application, make_tenant

ON, OFF = {"enabled": True}, {"enabled": False}


@pytest.mark.requirement("passkeys-7")
@pytest.mark.parametrize(
    ("globally", "tenant_s", "own", "application_s"), [*itertools.product([True, False], repeat=4)]
)
def test_an_application_with_settings_switches_the_workflow(globally, tenant_s, own, application_s) -> None:
    workflow = {"enabled": tenant_s}
    tenant = make_tenant(webAuthnConfiguration={"enabled": globally, "bootstrapWorkflow": workflow})
    settings = {"enabled": own, "bootstrapWorkflow": {"enabled": application_s}}
    application = make_application(webAuthnConfiguration=settings)
    effective = workflows.effective(tenant, application, workflows.BOOTSTRAP)
    assert effective.is_enabled is (globally and (application_s if own else tenant_s))


def test_workflows_have_the_tenant_s_requirements() -> None:
    tenant = make_tenant(
        webAuthnConfiguration={
            "enabled": True,
            "bootstrapWorkflow": {**ON, "authenticatorAttachmentPreference": "crossPlatform"},
            "reauthenticationWorkflow": {**OFF, "userVerificationRequirement": "discouraged"},
        }
    )
    assert workflows.effective(tenant, None, "bootstrap") == Workflow(True, "required", "cross-platform")
    assert workflows.effective(tenant, None, "reauthentication") == Workflow(False, "discouraged", "platform")
    assert workflows.effective(tenant, None, "general") == Workflow(True, "required", "cross-platform")


def test_only_passkeys_that_can_complete_a_workflow_are_accepted() -> None:
    def passkey(name: str, party: str, *, verifies: bool) -> dict[str, object]:
        return {"id": name, "relyingPartyId": party, "authenticatorSupportsUserVerification": verifies}

    owned = [passkey("a", "x.com", verifies=True), passkey("b", "x.com", verifies=False)]
    owned += [passkey("c", "y.com", verifies=True)]

    def usable(requirement: str, party: str | None) -> str:
        found = credentials.usable(owned, Workflow(True, requirement), party)
        return "".join(str(one["id"]) for one in found)

    assert usable("required", "x.com") == "a"
    assert usable("preferred", "x.com") == "ab"
    assert usable("required", None) == "ac"
