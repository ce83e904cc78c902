"""A member of a group, without I/O: state and requests of a coordinator's client.

`core.Membership` takes events and returns effects; clients drive it, and nodes may. It depends on neither.
"""
