"""Files: the disk's interface, and the files that are kept open."""
