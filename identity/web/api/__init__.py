"""The /api subjects with more than the generic operations."""
