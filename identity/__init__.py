"""A complete OAuth 2.0 and OpenID Connect provider with API keys, users, tenants and durable webhooks."""

__version__ = "0.2.0"
