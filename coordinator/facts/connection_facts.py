"""Facts about a member's client and connection, for operators."""

from msgspec.structs import replace

from coordinator.core.core import Core
from coordinator.groups.classic.events import Client
from protocol.messages.groups import DescribedMember


def with_client(known: DescribedMember, client: Client) -> DescribedMember:
    """Add what the client said of itself, and its address."""
    name, version = client.software
    return replace(
        known,
        client_port=client.client_port,
        client_software_name=name,
        client_software_version=version,
        principal=client.principal,
        listener=client.listener,
    )


def with_connection(core: Core, number: int, known: DescribedMember, now_ms: int) -> DescribedMember:
    """Say whether the connection is open. A member heard after its connection closed has another one."""
    if number < 0:
        return known
    if number in core.connections:
        return replace(known, is_connected=True)
    closed_ms = core.closed.closed_ms(number)
    if closed_ms is None:
        return known
    closed_ago_ms = now_ms - closed_ms
    if 0 <= known.heard_ago_ms < closed_ago_ms:
        return replace(known, is_connected=True)
    return replace(known, is_connected=False, disconnected_ms=closed_ago_ms)
