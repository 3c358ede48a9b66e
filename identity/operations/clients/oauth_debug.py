"""`oauthConfiguration.debug`: write failed token requests to the event log, for the developers of a client."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import OAuth2Error
from identity.operations.clients.clients import Client
from identity.operations.objects import event_logs
from identity.services import Services


async def log_failure(
    services: Services, call: Call, client: Client, form: Document, error: OAuth2Error, *, subject: str = "token"
) -> None:
    """Write a Debug row about a failed request if the application enables it; it contains no secrets.

    `subject` is what the client requested.
    """
    if not client.oauth.debug:
        return
    if subject == "token":
        subject = f"token for grant_type [{str(form.get('grant_type', 'none'))[:100]}]"
    message = (
        f"The application [{client.application['name']}] with client_id [{client.client_id}] got no {subject}:"
        f" {error.error}, {error.reason or 'no reason'}, {error.description}"
        f" The parameters were [{', '.join(sorted(form))}]."
    )
    await event_logs.debug(services, call, client.tenant_id, client.client_id, message)
