"""Groups, shards and what they are made of, each by itself."""
