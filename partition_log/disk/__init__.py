"""Files: the disk's protocol, and the files that are kept open."""
