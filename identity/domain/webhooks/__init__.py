"""Rules of webhooks: transaction types, retries, prefetching, headers, and signatures."""
