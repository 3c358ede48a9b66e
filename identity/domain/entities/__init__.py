"""Rules of entities and grants on them."""
