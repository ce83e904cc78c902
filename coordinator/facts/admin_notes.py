"""Notes about acts that no event of a group notes: on topics and settings, and parts of a large deletion. Those of the
node as a whole are under the group id "", which no group with members has."""

from typing import Final

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.core import INTERNAL, Core
from coordinator.groups.classic.events import Client
from coordinator.groups.classic.notes import Cause, origin_of_client
from coordinator.records.records import Note
from protocol.messages.groups import OffsetChange
from protocol.session import RequestRef

OF_NODE: Final = ""
_MOST_TEXT: Final = 1_000


def acting_client(core: Core, ref: RequestRef, actor: str, actor_host: str) -> Client:
    """Return who acts: the sender of the request. One from inside the process names who asked for it."""
    client = core.sender(ref)
    return (
        replace(client, client_id=actor or "http", client_host=f"/{actor_host}")
        if ref.connection == INTERNAL
        else client
    )


def note_admin(
    core: Core,
    ref: RequestRef,
    cause: Cause,
    act: str,
    detail: str,
    moment: Moment,
    group_id: str = OF_NODE,
    changes: tuple[OffsetChange, ...] = (),
) -> None:
    """Note that a client has done the act; `detail` says to what. What the process does of its own accord is no act."""
    if ref.connection == INTERNAL and ref.number not in core.callers:
        return
    client = core.sender(ref)
    shard, group = core.find(group_id)
    note = Note(
        group_id=group_id,
        kind="admin",
        cause=cause.value,
        initiator="",
        detail=f"{detail[:_MOST_TEXT]}, by {client}",
        generation_id=0 if group is None else group.classic.generation_id,
        members=0 if group is None else group.member_count,
        group_state="" if group is None else group.classic.state.title,
        wall_ms=moment.wall_ms,
        origin=origin_of_client(client),
        act=act,
        changes=changes,
    )
    shard.append_notes([note], moment)
