"""EDGES: TLS of the listeners."""
