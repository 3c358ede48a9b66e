"""Users, registrations, consents, families, imports and links to identity providers."""
