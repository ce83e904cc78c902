"""Facts about a member's client and connection, for operators."""

from msgspec.structs import replace

from coordinator.core.core import Core
from coordinator.groups.classic.events import Client
from coordinator.groups.consumer.delayed import heard_ms
from coordinator.groups.consumer.guards import holder_of
from coordinator.runtime.group import Group
from protocol.messages.groups import DescribedMember
from protocol.session import RequestRef


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


def fences(core: Core, ref: RequestRef, group: Group | None, instance_id: str | None) -> bool:
    """Return true if the sender of a join takes the instance id from a process that is still connected. It does not if
    only a process that has ended holds the id, or the sender itself, on the same connection."""
    if group is None or instance_id is None:
        return False
    connection, last_ms = _holder(group, instance_id)
    if connection in (-1, ref.connection):
        return False
    if (known := core.connections.get(connection)) is not None:
        return not known.has_ended
    closed_ms = core.closed.closed_ms(connection)
    return closed_ms is not None and last_ms > closed_ms  # it was heard on a newer connection


def _holder(group: Group, instance_id: str) -> tuple[int, int]:
    """Return the connection of the instance's member, and when it was last heard; -1 if there is none to be fenced."""
    consumer = group.serving_consumer
    if consumer is not None:
        member = holder_of(consumer, instance_id)
        if member is None or member.is_away:  # one that is away has given its place up
            return -1, -1
        return member.connection, heard_ms(consumer, member)
    known = group.classic.members.get(group.classic.static_members.get(instance_id, ""))
    return (-1, -1) if known is None else (known.connection, max(known.heard_ms, known.committed_ms))
