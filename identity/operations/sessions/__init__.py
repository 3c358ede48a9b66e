"""SSO sessions: creation, logout, and the termination of everything that a user is signed in with."""
