"""Server-side assignors (docs/spec/consumer-group-protocol.md#5): functions of members, topics and the previous target.

Each is a generator, so that a group of thousands of members does not delay other groups: it yields repeatedly, with the
estimated cost of its last piece in microseconds, and returns the target. `run` runs it to its end at once.
"""
