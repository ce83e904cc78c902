"""Spark jobs over a coordinator's own data: why groups rebalanced and what it cost, and which offsets go."""
