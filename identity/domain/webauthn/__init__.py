"""Rules of passkeys (Web Authentication Level 3)."""
