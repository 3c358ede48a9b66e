"""Passwords of users: validation, hashing, verification, and breach detection."""
