"""Measures the service: start-up, memory and rates, each beside what the machine could do at best."""
