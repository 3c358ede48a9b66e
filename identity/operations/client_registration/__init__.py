"""Dynamic client registration and management (RFC 7591, RFC 7592)."""
