"""Rules of webhooks: transaction types, retries, circuit breaker, prefetching, headers, and signatures."""
