"""Webhooks: configuration, delivery repair, event logs, and monitoring of failing receivers."""
