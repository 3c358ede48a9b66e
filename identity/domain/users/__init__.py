"""Rules of users, registrations, families and imports."""
