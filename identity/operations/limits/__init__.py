"""Rate limits of logins, codes, messages and anonymous requests."""
