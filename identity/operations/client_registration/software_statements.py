"""Software statements (RFC 7591 section 2.3): client metadata that an issuer trusted by the operator signed."""

from __future__ import annotations

from identity.call import Document
from identity.errors import InvalidSoftwareStatement, UnapprovedSoftwareStatement
from identity.instants import Instant, numeric_date
from identity.services import Services
from identity.tokens import jws
from identity.tokens.external_keys import ALGORITHMS
from identity.tokens.jws import Rejection

_TIMES = frozenset({"exp", "nbf"})


async def verify(services: Services, statement: str, now: Instant) -> Document:
    """Return the claims of a statement, which take precedence over other metadata.

    Raises UnapprovedSoftwareStatement for an unknown issuer, and InvalidSoftwareStatement.
    """
    unverified = jws.parse(statement)
    if isinstance(unverified, Rejection):
        raise _invalid("is not a signed JWT")
    keys = services.tokens.client_keys.statement_issuers.get(str(unverified.claims.get("iss")))
    if keys is None:
        raise UnapprovedSoftwareStatement(None, "The issuer of the software_statement is not trusted.")
    verified = await unverified.verified(keys.find(unverified.header, ALGORITHMS))
    if isinstance(verified, Rejection):
        raise _invalid("is not signed by its issuer")
    claims = verified.claims
    if _TIMES & claims.keys() and jws.check_times({"exp": numeric_date(now) + 1, **claims}, numeric_date(now)):
        raise _invalid("is not valid now")
    return claims


def _invalid(problem: str) -> InvalidSoftwareStatement:
    return InvalidSoftwareStatement(None, f"The software_statement {problem}.")
