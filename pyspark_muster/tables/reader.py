"""`spark.read.format("muster").option("table", ...)`: lists groups on the driver, and requests rows on executors."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from muster.admin.asking import list_topics
from muster.admin.nodes import Node, list_groups, nodes_with_groups
from muster.blocking.cluster import ClusterClient
from muster.errors import CannotConnect
from protocol.messages.groups import ListedGroup
from pyspark_muster.errors import NoSuchGroup
from pyspark_muster.tables.options import TableOptions
from pyspark_muster.tables.rows import UNLISTED, commit_rows, end_rows, group_rows, note_rows, topic_rows

GROUPS_A_TASK: Final = 250
TOPICS_A_TASK: Final = 500


class TablePartition(InputPartition):
    """A task: rows of some groups."""

    def __init__(self, options: TableOptions, groups: Sequence[ListedGroup], read_at_ms: int) -> None:
        super().__init__(f"{options.table} of {len(groups)} groups")
        self.options = options
        self.groups = tuple(groups)
        self.read_at_ms = read_at_ms


class TopicsPartition(InputPartition):
    """A task: rows of some topics."""

    def __init__(self, options: TableOptions, names: Sequence[str], read_at_ms: int) -> None:
        super().__init__(f"{len(names)} topics")
        self.options = options
        self.names = frozenset(names)
        self.read_at_ms = read_at_ms


class EndsPartition(InputPartition):
    """A task: samples that a node has written."""

    def __init__(self, options: TableOptions, node: Node) -> None:
        super().__init__(f"{options.table} of {node or 'the node'}")
        self.options = options
        self.node = node


def _refuse_a_part(sentence: str) -> None:
    """Raise CannotConnect, since a table without the groups of one node would look complete."""
    raise CannotConnect(sentence)


class TableReader(DataSourceReader):
    """Reads a table once."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the tasks. Raises `NoSuchGroup`, the client's errors."""
        options, read_at_ms = self._options, int(time.time() * 1_000)
        with options.connect() as cluster:
            if options.table == "topics":
                names = [topic.name or "" for topic in list_topics(cluster)]
                starts = range(0, len(names), TOPICS_A_TASK)
                return [TopicsPartition(options, names[at : at + TOPICS_A_TASK], read_at_ms) for at in starts]
            listed = list_groups(cluster, _refuse_a_part)
            nodes = nodes_with_groups(cluster) if options.table == "ends" else []
        tasks = plan_tasks(options, listed, read_at_ms)
        return [EndsPartition(options, node) for node in nodes] or tasks

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        if not isinstance(partition, TablePartition | TopicsPartition | EndsPartition):
            return  # of a partition that Spark makes if there is none
        with partition.options.connect() as cluster:
            match partition:
                case TopicsPartition():
                    yield from topic_rows(cluster, partition.names, partition.read_at_ms)
                case EndsPartition():
                    yield from end_rows(cluster, partition.node, partition.options.groups, partition.options.since_ms)
                case TablePartition():
                    yield from _rows_of_groups(cluster, partition)


def _rows_of_groups(cluster: ClusterClient, partition: TablePartition) -> Iterator[tuple[Any, ...]]:
    options, groups = partition.options, partition.groups
    match options.table:
        case "commits":
            yield from commit_rows(cluster, groups, partition.read_at_ms, is_native=options.is_native)
        case "groups":
            yield from group_rows(cluster, groups, partition.read_at_ms)
        case "notes":
            yield from note_rows(cluster, groups, options.since_ms)


def plan_tasks(options: TableOptions, listed: Sequence[ListedGroup], read_at_ms: int) -> list[InputPartition]:
    """Return the tasks for the listed groups, or the requested ones of them. The notes of a group outlive it, so a
    named group is requested even if it is not listed. Raises `NoSuchGroup`.
    """
    wanted = list(listed)
    if options.groups:
        known = {group.group_id: group for group in listed}
        missing = [group_id for group_id in options.groups if group_id not in known]
        if missing and options.table != "notes":
            raise NoSuchGroup(f"the option 'groups' names {', '.join(map(repr, missing))}: there is no such group")
        wanted = [known.get(group_id) or ListedGroup(group_id, "", UNLISTED) for group_id in options.groups]
    starts = range(0, len(wanted), GROUPS_A_TASK)
    return [TablePartition(options, wanted[at : at + GROUPS_A_TASK], read_at_ms) for at in starts]
