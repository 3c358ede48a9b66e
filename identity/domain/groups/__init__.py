"""Rules of groups and memberships."""
