"""Embedded stores: MongoDB and a Redis-compatible server as child processes, with durable data."""
