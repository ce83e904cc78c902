"""Tables of what a coordinator knows: `commits`, `groups` and `notes`, read in batches, without a group."""
