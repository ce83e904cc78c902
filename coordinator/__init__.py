"""The group-coordinator service: one sans-I/O `Node`, and the edges that move its bytes."""

__version__ = "0.1.0"
