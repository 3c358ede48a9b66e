"""Forgotten, required and voluntary password changes."""
