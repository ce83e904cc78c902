"""A node's share of the shards in the cluster's log: which it serves, and which node serves the others."""
