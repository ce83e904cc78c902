"""A member of a group, without I/O: what a coordinator's client knows and asks, whoever runs it.

`core.Membership` is stepped with events and gives effects; clients drive it, and nodes may. Nothing here knows them.
"""
