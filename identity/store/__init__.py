"""MongoDB and Redis, one module per collection; the sole importer of motor and redis."""
