"""`/api/docs`: the API reference for browsers, rendered from the OpenAPI document."""
