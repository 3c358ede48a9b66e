"""Rules of authorization requests: parameters, response types, claims, consent, and client authentication."""
