"""Tables of a coordinator's data: `commits`, `groups` and `notes`, for instance, read in batches, without a group."""
