"""One segment of a log: its file, its indexes, and their names."""
