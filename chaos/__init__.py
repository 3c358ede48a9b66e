"""Chaos test: kills everything at random under load, and checks that no event is lost or invented.

`python -m chaos --events 20000 --seed 7`; docs/reliability.md describes the method, the checks and the results.
"""
