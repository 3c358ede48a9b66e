"""The command line `identity`, which is also run.py."""
