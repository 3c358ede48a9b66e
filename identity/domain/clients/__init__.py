"""Rules of OAuth clients: redirect URIs, scopes, security profiles, assertions, and proof of possession."""
