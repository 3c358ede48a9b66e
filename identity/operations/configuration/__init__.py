"""Configuration objects: tenants, applications, keys, API keys, themes, and system settings."""
