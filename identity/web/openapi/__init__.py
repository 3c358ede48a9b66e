"""The OpenAPI document of the service, made from its routes, what they declare, and schemas/."""
