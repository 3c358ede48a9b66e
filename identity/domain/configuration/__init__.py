"""Rules of tenants, applications, key rotation and themes."""
