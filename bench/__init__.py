"""Benchmarks of the service, compared with bare servers on the same loop in the same run: `python -m bench`.

Nothing here is installed. `docs/performance.md` says how to read the figures.
"""
