"""Records of the offsets log and their bytes."""
