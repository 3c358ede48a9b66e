"""MongoDB and Redis as children of run.py, for a machine that has none: real servers with real persistence."""
