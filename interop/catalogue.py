"""Parses and checks a client's `client.toml`. Pure: bytes in, a `Client` out."""

import msgspec

CAPABILITIES = (
    "produce_consume",
    "rebalance_eager",
    "rebalance_cooperative",
    "static_member",
    "commit_resume",
    "offsets_by_time",
    "admin_topics",
    "admin_groups",
    "configs",
    "idempotent",
    "mixed",
    "server_crash",
    "offsets_topic",
    "offsets_log",
)
"""The columns of the table, in its order."""

DRIVEN = (
    "produce_consume",
    "rebalance_eager",
    "rebalance_cooperative",
    "static_member",
    "commit_resume",
    "idempotent",
    "mixed",
    "server_crash",
    "offsets_log",
)
"""Capabilities that the harness tests by a program's `produce` and `member`, or by `offsets_log`."""
ON_OURS = ("server_crash", "offsets_log")
"""Capabilities whose tests only our own server may suffer."""


class BadClient(Exception):
    """A `client.toml` that does not say what the README asks of it."""


class Client(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One client as its folder describes it. `build` and `run` are for sh; `shares` are folders of other clients."""

    name: str
    version: str
    language: str
    run: str
    build: str = ""
    needs: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    compressions: tuple[str, ...] = ("none",)
    capabilities: tuple[str, ...] = ()
    driven: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    """Mechanisms of SASL by which its `member` logs in."""
    reauthenticates: bool = True
    """False for a client that connects anew when a login ends, and does not renew it before (KIP-368)."""

    def offers(self, capability: str) -> bool:
        return capability in self.capabilities or capability in self.driven


def read(text: bytes) -> Client:
    """The client of a `client.toml`. Raises BadClient with a sentence that names what is wrong."""
    try:
        client = msgspec.toml.decode(text, type=Client)
    except msgspec.MsgspecError as error:
        raise BadClient(str(error)) from error
    unknown = [name for name in client.capabilities if name not in CAPABILITIES]
    unknown += [name for name in client.driven if name not in DRIVEN]
    if unknown:
        raise BadClient(f"no such capability, or none that can be driven: {', '.join(unknown)}")
    twice = [name for name in client.driven if name in client.capabilities]
    if twice:
        raise BadClient(f"both driven and the program's own: {', '.join(twice)}")
    return client
