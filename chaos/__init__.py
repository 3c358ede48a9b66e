"""The crash harness: everything is killed at random points under load, and no event may be lost or invented.

`python -m chaos --events 20000 --seed 7`; docs/reliability.md says what is done, what is proved, and what came of it.
"""
