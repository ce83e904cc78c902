"""One partition's log, and the other files in its folder."""
