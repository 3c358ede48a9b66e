"""Connectors: their settings, the policies of tenants, and the users that they return."""
