"""Spark jobs over a coordinator's own data: causes and costs of rebalances, lag, and expiring offsets."""
