"""OAuth clients: look-up, authentication, proof of possession, and bearer tokens presented to our endpoints."""
