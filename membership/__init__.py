"""A member of a group, without I/O: state and requests of a coordinator's client.

`core.Membership` takes events and returns effects; clients and nodes drive it. It depends on neither.
"""
