"""Rules of two-factor authentication: one-time passwords, methods, and QR codes."""
