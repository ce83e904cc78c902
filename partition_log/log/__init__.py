"""One partition's log, and the files beside its segments."""
