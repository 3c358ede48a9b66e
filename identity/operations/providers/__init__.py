"""Identity providers: configuration, protocol exchanges, and the resolution of external identities to users."""
