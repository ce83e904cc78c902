"""The cores of clients, without I/O: fetching, producing, positions, client-balanced groups."""
