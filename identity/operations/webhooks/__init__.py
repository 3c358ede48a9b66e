"""Webhooks: validation, administration of deliveries, event log, and monitoring of failing receivers."""
