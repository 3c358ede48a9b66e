"""Rules of dynamic client registration (RFC 7591)."""
