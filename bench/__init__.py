"""Measures the service: start-up, memory and rates, each next to the limit of the machine."""
