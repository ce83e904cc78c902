"""Hand-made requests: members of groups that send what no client library would."""

import socket
from typing import Any

from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka.protocol.parser import KafkaProtocol

ANSWERS_WITHIN_S = 20.0
MEMBER_ID_REQUIRED = 79
REBALANCE_IN_PROGRESS = 27
SESSION_MS = 20_000


class Wire:
    """One connection."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), ANSWERS_WITHIN_S)
        self._protocol = KafkaProtocol(client_id="by hand", receive_message_max_bytes=100_000_000)

    def send(self, request: Any) -> None:
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())

    def receive(self) -> Any:
        """Return the next reply. Raises TimeoutError if there is none in time."""
        while True:
            data = self._socket.recv(1 << 20)
            assert data, "the server hung up"
            answers = self._protocol.receive_bytes(data)
            if answers:
                ((_, answer),) = answers
                return answer

    def ask(self, request: Any) -> Any:
        self.send(request)
        return self.receive()

    def close(self) -> None:
        self._socket.close()


class WireMember:
    """A hand-made member: it joins when the test says so, and does not interpret metadata."""

    def __init__(self, wire: Wire, group: str, protocol_type: str, metadata: dict[str, bytes]) -> None:
        self.wire = wire
        self.group = group
        self.protocol_type = protocol_type
        self.metadata = metadata
        self.member_id = ""
        self.generation = -1
        self.joined: Any = None

    def ask_to_join(self) -> None:
        """Sends a JoinGroup that the server has to hold until all are there."""
        if not self.member_id:
            refused = self.wire.ask(self._join())
            assert refused.error_code == MEMBER_ID_REQUIRED, refused
            self.member_id = refused.member_id
        self.wire.send(self._join())

    def _join(self) -> Any:
        protocols = [
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in self.metadata.items()
        ]
        return JoinGroupRequest[9](
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type=self.protocol_type,
            protocols=protocols,
            reason="by hand",
        )

    def hear_of_the_join(self) -> None:
        self.joined = self.wire.receive()
        assert self.joined.error_code == 0, self.joined
        self.generation = self.joined.generation_id

    def join(self) -> None:
        self.ask_to_join()
        self.hear_of_the_join()

    @property
    def leads(self) -> bool:
        return bool(self.joined.leader == self.member_id)

    @property
    def seen(self) -> dict[str, bytes]:
        """Every member's metadata, as the leader is told."""
        return {each.member_id: bytes(each.metadata) for each in self.joined.members}

    def ask_to_sync(self, assignments: dict[str, bytes] | None = None) -> None:
        listed = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in (assignments or {}).items()
        ]
        self.wire.send(
            SyncGroupRequest[5](
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=None,
                protocol_type=self.protocol_type,
                protocol_name=self.joined.protocol_name,
                assignments=listed,
            )
        )

    def hear_of_the_sync(self) -> bytes:
        synced = self.wire.receive()
        assert synced.error_code == 0, synced
        return bytes(synced.assignment)

    def sync(self, assignments: dict[str, bytes] | None = None) -> bytes:
        self.ask_to_sync(assignments)
        return self.hear_of_the_sync()

    def heartbeat(self) -> int:
        """The error code."""
        answer = self.wire.ask(
            HeartbeatRequest[4](
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=None,
            )
        )
        return int(answer.error_code)

    def leave(self) -> None:
        one = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=None, reason="done")
        answer = self.wire.ask(LeaveGroupRequest[5](group_id=self.group, members=[one]))
        assert answer.error_code == 0, answer


def fetch(topic_id: Any, offset: int, wait_ms: int) -> Any:
    """A Fetch of one partition, without a session, that waits for a byte."""
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=offset, log_start_offset=-1, partition_max_bytes=1 << 20
    )
    return FetchRequest[13](
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )
