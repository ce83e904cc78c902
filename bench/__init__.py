"""What the service costs, next to bare servers on the same loop in the same run: `python -m bench`.

Beside the service, not of it: nothing here is installed. `docs/performance.md` says how to read the figures.
"""
