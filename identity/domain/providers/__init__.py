"""Rules of identity providers and external identities."""
