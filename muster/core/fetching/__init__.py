"""Fetching, without I/O: requests to nodes, and the handling of their replies (docs/spec/consumer-client.md#B2 to #B6,
#C).

`Fetcher` sends requests and takes replies, `FetchBuffer` keeps records until the application gets them,
`FetchedRecords` are the records of one partition in one reply, `Leaders` finds the node to ask, `PositionRequests`
finds start positions. A consumer's positions are in `muster.core.positions`, its fetch sessions in
`muster.core.fetching.sessions`.
"""
