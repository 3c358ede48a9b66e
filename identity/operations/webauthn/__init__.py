"""Passkeys: registration, authentication and the stored credentials."""
