"""Forms and their fields, which are shared by all tenants."""
