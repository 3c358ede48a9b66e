"""/api/integration: one object without an id."""

from __future__ import annotations

from identity.operations.configuration import integrations
from identity.web.api.single_object import SingleObjectHandler
from identity.web.base_handlers import Route

ROUTES = [Route("/api/integration", SingleObjectHandler, {"resource": integrations.RESOURCE})]
