"""The protocol endpoints, one module each."""
