"""The OpenAPI document, built from the routes, their declarations and schemas/."""
