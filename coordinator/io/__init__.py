"""EDGES: sockets, syncs of files, signals."""
