"""A node's share of the shards in the cluster's log: the shards that it serves, and the nodes that serve the others."""
