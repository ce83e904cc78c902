"""One file for each API: admit the request, find the group, hand it to the shard."""
