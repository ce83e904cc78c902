"""Muster's own binary protocol: MessagePack-RPC with notifications from the server (docs/spec/native-protocol.md).

`framing.py` finds values in a stream, `codec.py` has the three kinds of frame, `methods.py` the table of methods,
`session.py` the server's side of a connection, and `client.py` the client's.
"""
