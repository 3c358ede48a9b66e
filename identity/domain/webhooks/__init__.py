"""Rules of webhooks: transaction types, retries, headers, and signatures."""
