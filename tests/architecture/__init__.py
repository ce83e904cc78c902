"""That the shape stays what it is meant to be: packages, sizes, pairs of files and tests."""
