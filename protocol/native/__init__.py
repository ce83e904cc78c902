"""Our own binary protocol: MessagePack-RPC, with server push (docs/spec/native-protocol.md).

`framing.py` finds values in a stream, `codec.py` knows the three kinds of frame, `methods.py` is the table of what can
be asked, `session.py` the server's side of a connection, `client.py` the other one.
"""
