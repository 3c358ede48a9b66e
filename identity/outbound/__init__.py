"""Calls to the outside world, guarded."""
