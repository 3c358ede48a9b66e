"""Lambdas: JavaScript of administrators, run in separate processes with limits."""
