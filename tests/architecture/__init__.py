"""The shape of the tree stays as it is meant: packages, sizes, words, printed pages."""
