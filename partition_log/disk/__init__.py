"""Files: the disk's interface, and the sets of open files."""
