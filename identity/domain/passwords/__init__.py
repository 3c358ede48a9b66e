"""Password hashing schemes and password policy."""
