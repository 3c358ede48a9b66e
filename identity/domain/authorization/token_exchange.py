"""Token exchange (RFC 8693): what a client may exchange, for whom it may act, and the limits of the new token."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.domain.clients import scopes
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.domain.objects import stored_values
from identity.errors import InvalidRequest, InvalidTarget
from identity.instants import NumericDate

_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:"  # noqa: S105 (a prefix)
ACCESS_TOKEN: Final = f"{_TOKEN_TYPE}access_token"
ID_TOKEN: Final = f"{_TOKEN_TYPE}id_token"
JWT: Final = f"{_TOKEN_TYPE}jwt"
PRESENTED_TYPES: Final = frozenset({ACCESS_TOKEN, ID_TOKEN, JWT})
"""The types of subject and actor tokens: JWTs of this service."""
_REQUESTED_TYPES: Final = frozenset({ACCESS_TOKEN, JWT})
_MAY_ACT_MEMBERS: Final = frozenset({"sub", "iss", "client_id"})


@dataclasses.dataclass(frozen=True, slots=True)
class TokenExchangePolicy:
    """The `tokenExchangeConfiguration` of an application.

    `audiences` are the targets that it may request, `subject_audiences` the audiences of tokens that it may exchange,
    in addition to its own client id. `impersonation_enabled`: a token without an actor token gets no `act` claim.
    """

    audiences: tuple[str, ...] = ()
    subject_audiences: tuple[str, ...] = ()
    impersonation_enabled: bool = False

    @classmethod
    def of(cls, application: Document) -> TokenExchangePolicy:
        """Return the policy of an application."""
        return stored_values.from_document(cls, application["oauthConfiguration"].get("tokenExchangeConfiguration", {}))


def requested_type(form: Document) -> str:
    """Return the type of the token to issue (RFC 8693 section 2.1). Raises InvalidRequest for an unsupported one."""
    value = str(form.get("requested_token_type", ACCESS_TOKEN))
    if value not in _REQUESTED_TYPES:
        raise InvalidRequest("unknown", f"The requested_token_type is not supported: {value[:100]}")
    return value


def requested_audiences(text: str | None, policy: TokenExchangePolicy) -> tuple[str, ...]:
    """Parse the audience parameter, whose repeated values are joined by spaces. Raises InvalidTarget."""
    values = tuple(dict.fromkeys((text or "").split()))
    for value in values:
        if value not in policy.audiences:
            raise InvalidTarget(None, f"The client may not request this audience: {value[:200]}")
    return values


def granted_scopes(
    text: str | None, subject_scopes: Collection[str], oauth: OAuthSettings, custom: Sequence[Document]
) -> tuple[str, ...]:
    """Return the requested scopes, or all those of the subject token that the client may have. Raises InvalidScope.

    A new scope is never added, and no refresh token is issued.
    """
    held = [scope for scope in subject_scopes if scope != scopes.OFFLINE_ACCESS]
    requested = scopes.parse(text)
    if requested:
        return scopes.apply_policy(scopes.narrow(requested, held), oauth, custom)
    is_open = oauth.unknown_scope_policy == "Allow"
    known = scopes.known_scopes(oauth, custom)
    return tuple(scope for scope in held if is_open or scope in known)


def require_may_act(subject: Mapping[str, Any], actor: Mapping[str, str], client_id: str) -> None:
    """Raise InvalidRequest if the subject token names another party that may act (RFC 8693 section 4.4)."""
    if "may_act" not in subject:
        return
    allowed = subject["may_act"]
    identity = {**actor, "iss": subject["iss"], "client_id": client_id}
    names = allowed.keys() & _MAY_ACT_MEMBERS if isinstance(allowed, dict) else set()
    if not names or any(allowed[name] != identity[name] for name in names):
        raise InvalidRequest("unknown", "The subject_token does not allow this actor (the claim may_act).")


def act_claim(subject: Mapping[str, Any], actor: Mapping[str, str] | None, maximum: int) -> Document | None:
    """Return the `act` claim: the actor, and the earlier ones of the subject token (RFC 8693 section 4.1).

    Without an actor the earlier ones remain. Raises InvalidRequest for more than `maximum`.
    """
    earlier = subject.get("act")
    if actor is None:
        return earlier
    act: Document = dict(actor) if earlier is None else {**actor, "act": earlier}
    if _length(act) > maximum:
        raise InvalidRequest("unknown", f"The token would have more than {maximum} actors (the claim act).")
    return act


def lifetime_seconds(ttl_seconds: int, now: NumericDate, presented: Sequence[Mapping[str, Any]]) -> int:
    """Return the lifetime of the new token, which does not outlive the presented ones."""
    return min(ttl_seconds, *(int(claims["exp"]) - now for claims in presented))


def _length(act: object) -> int:
    length = 0
    while isinstance(act, dict):
        length, act = length + 1, act.get("act")
    return length
