"""A member of a group, without I/O: state and requests of a coordinator's client.

`core.Membership` is stepped with events and gives effects; clients drive it, and nodes may. Nothing here knows them.
"""
