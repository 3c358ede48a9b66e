"""/api/system-configuration: one object without an id."""

from __future__ import annotations

from identity.operations.configuration import system_configuration
from identity.web.api.single_object import SingleObjectHandler
from identity.web.base_handlers import Route

ROUTES = [Route("/api/system-configuration", SingleObjectHandler, {"resource": system_configuration.RESOURCE})]
