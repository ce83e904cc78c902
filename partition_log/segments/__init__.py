"""One segment of a log: its file, its indexes, and the names they have."""
