"""The official Python client, unmodified, on actions on users, comments, messengers and message templates."""

from __future__ import annotations

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.clients.test_fusionauth_client_objects import successful, with_client
from tests.conftest import DEFAULT_TENANT

INDEFINITE = 9223372036854775807


def make_user(client: FusionAuthClient) -> str:
    user = {"username": new_id(), "password": "password"}
    return str(successful(client.create_user({"user": user}))["user"]["id"])


@pytest.mark.requirement("users-11-23")
async def test_the_client_takes_modifies_cancels_and_lists_actions(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        moderator, user = make_user(client), make_user(client)
        wanted = {"userAction": {"name": new_id(), "temporal": True, "preventLogin": True}}
        definition = successful(client.create_user_action(wanted))["userAction"]["id"]
        who = {"actioneeUserId": user, "actionerUserId": moderator}
        request = {"action": {**who, "userActionId": definition, "expiry": INDEFINITE}, "broadcast": True}
        action = successful(client.action_user(request))["action"]
        assert successful(client.retrieve_action(action["id"])) == {"action": action}
        for listed in (
            client.retrieve_actions(user),
            client.retrieve_active_actions(user),
            client.retrieve_actions_preventing_login(user),
        ):
            assert successful(listed) == {"actions": [action]}
        assert successful(client.retrieve_inactive_actions(user)) == {"actions": []}
        change = {"action": {"actionerUserId": moderator, "comment": "Looked at again", "expiry": INDEFINITE - 1}}
        changed = successful(client.modify_action(action["id"], change))["action"]
        assert (changed["comment"], changed["expiry"]) == ("Looked at again", INDEFINITE - 1)
        cancelled = successful(client.cancel_action(action["id"], {"action": {"actionerUserId": moderator}}))["action"]
        assert successful(client.retrieve_inactive_actions(user)) == {"actions": [cancelled]}
        assert len(cancelled["history"]["historyItems"]) == 2

    await with_client(service, work, tenant=DEFAULT_TENANT)


@pytest.mark.requirement("users-11-23")
async def test_client_receives_actions_that_prevent_a_login(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        name = new_id()
        user = successful(client.create_user({"user": {"username": name, "password": "password"}}))["user"]["id"]
        wanted = {"userAction": {"name": new_id(), "temporal": True, "preventLogin": True}}
        definition = successful(client.create_user_action(wanted))["userAction"]
        who = {"actioneeUserId": user, "actionerUserId": user, "userActionId": definition["id"]}
        action = successful(client.action_user({"action": {**who, "expiry": INDEFINITE}}))["action"]
        refused = client.login({"loginId": name, "password": "password"})
        assert refused.status == 409
        found = refused.error_response.json()["actions"]
        assert [(one["actionId"], one["name"]) for one in found] == [(action["id"], definition["name"])]

    await with_client(service, work, tenant=DEFAULT_TENANT)


@pytest.mark.requirement("users-11-23")
async def test_the_client_comments_on_users(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        user = make_user(client)
        wanted = {"userComment": {"comment": f"Called {new_id()}", "commenterId": user, "userId": user}}
        comment = successful(client.comment_on_user(wanted))["userComment"]
        assert successful(client.retrieve_user_comments(user)) == {"userComments": [comment]}
        found = successful(client.search_user_comments({"search": {"userId": user, "comment": "called*"}}))
        assert found == {"total": 1, "userComments": [comment]}

    await with_client(service, work, tenant=DEFAULT_TENANT)


@pytest.mark.requirement("messages-8")
async def test_the_client_makes_reads_changes_and_removes_messengers(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        messenger_id, name = new_id(), new_id()
        settings = {"type": "Generic", "url": "https://sms.example.com", "connectTimeout": 1, "readTimeout": 1}
        made = successful(client.create_messenger({"messenger": {"name": name, **settings}}, messenger_id))["messenger"]
        assert successful(client.retrieve_messenger(messenger_id)) == {"messenger": made}
        assert made in successful(client.retrieve_messengers())["messengers"]
        patched = successful(client.patch_messenger(messenger_id, {"messenger": {"debug": True}}))["messenger"]
        assert (patched["debug"], patched["url"]) == (True, settings["url"])
        updated = successful(client.update_messenger(messenger_id, {"messenger": {"name": f"{name}!", **settings}}))
        assert (updated["messenger"]["name"], updated["messenger"]["debug"]) == (f"{name}!", False)
        successful(client.delete_messenger(messenger_id))
        assert client.retrieve_messenger(messenger_id).status == 404

    await with_client(service, work, tenant=DEFAULT_TENANT)


@pytest.mark.requirement("messages-8")
async def test_the_client_makes_reads_changes_previews_and_removes_message_templates(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        template_id, name = new_id(), new_id()
        wanted = {"name": name, "type": "SMS", "defaultTemplate": "Your code: ${code}"}
        made = successful(client.create_message_template({"messageTemplate": wanted}, template_id))["messageTemplate"]
        assert successful(client.retrieve_message_template(template_id)) == {"messageTemplate": made}
        assert made in successful(client.retrieve_message_templates())["messageTemplates"]
        change = {"messageTemplate": {"localizedTemplates": {"de": "Ihr Code: ${code}"}}}
        patched = successful(client.patch_message_template(template_id, change))["messageTemplate"]
        shown = successful(client.retrieve_message_template_preview({"messageTemplate": patched, "locale": "de"}))
        assert shown["message"]["textMessage"] == "Ihr Code: ${code}"
        updated = successful(client.update_message_template(template_id, {"messageTemplate": wanted}))[
            "messageTemplate"
        ]
        assert updated["localizedTemplates"] == {}
        successful(client.delete_message_template(template_id))
        assert client.retrieve_message_template(template_id).status == 404

    await with_client(service, work, tenant=DEFAULT_TENANT)
