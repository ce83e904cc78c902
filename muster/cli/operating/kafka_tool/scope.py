"""Partitions that options name, as `orders` or `orders:0,3`."""

from collections.abc import Iterable, Iterator, Sequence

from membership.topic_partition import TopicPartition
from muster.admin.asking import Complaint, NotFound, partitions_of
from muster.blocking.cluster import ClusterClient
from muster.cli.operating.kafka_tool.arguments import refuse
from muster.cli.operating.kafka_tool.errors import sentence
from protocol.errors import ErrorCode


def _partitions_of_word(text: str) -> Iterator[TopicPartition]:
    """Read the partitions of `orders:0,3`; a wrong word ends the process with 1."""
    topic, *numbers = text.split(":")
    if len(numbers) != 1 or not numbers[0]:
        refuse(f"Invalid topic arg '{text}', expected topic name and partitions")
    for number in numbers[0].split(","):
        if not (number.isascii() and number.isdigit()):
            refuse(f"Invalid partition '{number}' specified in topic arg '{text}''")
        yield TopicPartition(topic, int(number))


def partitions_of_topics(cluster: ClusterClient, topics: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that are named, and all of a topic without numbers. Raises NotFound."""
    found, missing = named_partitions(cluster, topics)
    if missing:
        raise NotFound(sentence(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return found


def named_partitions(cluster: ClusterClient, topics: Sequence[str]) -> tuple[list[TopicPartition], set[str]]:
    """Return the partitions that are named, and all of a topic without numbers; then such topics that do not exist."""
    named = [one for text in topics if ":" in text for one in _partitions_of_word(text)]
    whole = {text for text in topics if ":" not in text}
    existing = partitions_of(cluster, whole)
    return sorted({*named, *existing}), whole - {one.topic for one in existing}


def check_existing(cluster: ClusterClient, wanted: Iterable[TopicPartition]) -> None:
    """Raise a Complaint if one of the partitions does not exist."""
    wanted = sorted(wanted)
    existing = partitions_of(cluster, {one.topic for one in wanted})
    if {one.topic for one in wanted} - {one.topic for one in existing}:
        raise Complaint(sentence(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    missing = [f"{one.topic}-{one.partition}" for one in wanted if one not in existing]
    if missing:
        raise Complaint(f'The partitions "{",".join(missing)}" do not exist')
