"""Authorization requests: sources, login requirements, device grants, passwordless logins, and responses."""
