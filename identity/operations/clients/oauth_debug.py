"""`oauthConfiguration.debug`: why a client got no token, told in the event log to those who set it up."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import OAuth2Error
from identity.operations.clients.clients import Client
from identity.operations.objects import event_logs
from identity.services import Services


async def log_failure(
    services: Services, call: Call, client: Client, form: Document, error: OAuth2Error, *, wanted: str = "token"
) -> None:
    """Write a Debug row about a failed request, where the application asks for it; nothing secret is in it.

    `wanted` is what the request was made for.
    """
    if not client.oauth["debug"]:
        return
    if wanted == "token":
        wanted = f"token for grant_type [{str(form.get('grant_type', 'none'))[:100]}]"
    message = (
        f"The application [{client.application['name']}] with client_id [{client.client_id}] got no {wanted}:"
        f" {error.error}, {error.reason or 'no reason'}, {error.description}"
        f" The parameters were [{', '.join(sorted(form))}]."
    )
    await event_logs.debug(services, call, client.tenant_id, client.client_id, message)
