"""Login outcomes, authentication methods, breach lookups, and impossible travel."""
