"""Login outcomes, authentication methods, and breach lookups."""
