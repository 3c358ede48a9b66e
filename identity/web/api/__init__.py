"""The /api subjects that are more than a row of resources.py."""
