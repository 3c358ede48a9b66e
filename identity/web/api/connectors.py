"""/api/connector: connections to other systems that authenticate users."""

from __future__ import annotations

from identity.operations.connectors import connectors
from identity.web import crud

ROUTES = [*crud.routes(connectors.RESOURCE)]
