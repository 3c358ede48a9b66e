"""Rules of webhooks: transactions, retries, health, headers, signatures, and delivery pacing."""
