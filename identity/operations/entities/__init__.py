"""Entities, their types, grants on them, and entities as OAuth clients."""
