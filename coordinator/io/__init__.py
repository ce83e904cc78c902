"""EDGES: sockets, files' syncs, signals."""
