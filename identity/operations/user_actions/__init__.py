"""User actions: definitions, actions applied to users, their expiry, and account lock-out."""
