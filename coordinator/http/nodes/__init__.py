"""The nodes that share the groups of one cluster, as one HTTP interface: any of them answers for all groups."""
