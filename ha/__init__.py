"""Fail-over tests with real servers: a replica set, Redis Sentinel, and Redis Cluster. Run with `make ha`."""
