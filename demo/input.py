"""Input of the demonstration: the flights, released to the group part by part.

A part is released when the members that the story needs are there, however slowly they start: nobody can read ahead of
the story.
"""

import contextlib
from collections.abc import Sequence

from demo.flights import key_of
from demo.processes import ProcessEnded
from demo.show import Show
from muster import MusterError, Producer, Refused
from muster.blocking.cluster import ClusterClient, expect
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply

_RECORDS_AT_ONCE = 20_000
_PATIENCE_S = 5.0


class Input:
    """Flights of a new topic. Raises `ProcessEnded` if there is one of its name."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, lines: Sequence[bytes], show: Show) -> None:
        _create(bootstrap, topic, partitions)
        self.total = len(lines)
        self._topic, self._lines, self._show = topic, lines, show
        self._sent = self._released = 0
        self._producer = Producer(bootstrap)

    def close(self) -> None:
        """Disconnect; what is not stored soon is given up."""
        with contextlib.suppress(MusterError):
            self._producer.close(_PATIENCE_S)

    def release(self, share: float) -> None:
        """Let the group have so much of all flights."""
        self._released = round(share * self.total)

    def send_some(self) -> None:
        """Send some of what is released."""
        upto = min(self._sent + _RECORDS_AT_ONCE, self._released)
        if upto == self._sent:
            return
        for line in self._lines[self._sent : upto]:
            self._producer.send(self._topic, line, key_of(line))
        self._sent = upto
        self._show.set("loaded", upto, self.total)


def _create(bootstrap: str, topic: str, partitions: int) -> None:
    cluster = ClusterClient(bootstrap)
    made = expect(CreateTopicsReply, cluster.ask(CreateTopics((CreatableTopic(topic, partitions),)))).topics[0]
    cluster.close()
    if made.error_code is ErrorCode.TOPIC_ALREADY_EXISTS:
        raise ProcessEnded(f"the topic {topic!r} exists already: name another with --topic")
    if made.error_code:
        raise Refused(made.error_code, made.error_message or made.error_code.name)
