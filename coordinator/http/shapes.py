"""JSON of the pages under `/v3`, with Confluent REST v3's field names and links. Messages in, objects out; pure.

There are links only to pages that are served.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from coordinator.http.lag.partitions import (
    PartitionEnd,
    PartitionLag,
    commit_age_ms,
    longest_ms,
    oldest_ms,
    worst,
)
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.offsets import DescribeExpiryReply
from protocol.messages.topics import MetadataBroker, MetadataPartitionReply, MetadataTopicReply

Json = dict[str, Any]

_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")


def state_name(group_state: str) -> str:
    """Return the state in Confluent's spelling: PREPARING_REBALANCE for `PreparingRebalance`."""
    return _WORD_START.sub("_", group_state).upper() or "UNKNOWN"


def expiring(group_id: str, reply: DescribeExpiryReply) -> Json:
    """Return the page of expiring offsets under `/v1`: times in milliseconds, null if there is none."""
    last = reply.offsets[-1] if reply.has_more and reply.offsets else None
    return {
        "group_id": group_id,
        "group_state": reply.group_state,
        "retention_ms": reply.retention_ms,
        "next_run_ms": reply.next_run_ms,
        "group_expires_ms": _or_null(reply.group_expires_ms),
        "group_kept_because": reply.group_kept_because or None,
        "offsets": [
            {
                "topic": one.topic,
                "partition": one.partition_index,
                "committed_offset": _or_null(one.committed_offset),
                "committed_ms": _or_null(one.commit_timestamp_ms),
                "expires_ms": _or_null(one.expires_ms),
                "kept_because": one.kept_because or None,
            }
            for one in reply.offsets
        ],
        "next_page_token": None if last is None else f"{last.topic}-{last.partition_index}",
    }


def _age(age_ms: int | None) -> Json:
    """Return the age field of a cluster's ends. Ends of embedded topics are current, and have none, as in Confluent's
    API."""
    return {} if age_ms is None else {"end_age_ms": age_ms}


def seconds(ms: int | None) -> float | None:
    """Return a time in seconds, as metrics have it; None if it is unknown."""
    return None if ms is None else ms / 1_000


def _or_null(number: int) -> int | None:
    return number if number >= 0 else None


class Shapes:
    """JSON objects for clients of one address, since links are absolute: `origin` is `http://host:port`."""

    def __init__(self, origin: str, cluster_id: str) -> None:
        self._root = f"{origin}/v3/clusters"
        self._cluster_id = cluster_id

    def cluster(self, controller_id: int) -> Json:
        own = self._own()
        return {
            **self._head("KafkaCluster", own),
            "cluster_id": self._cluster_id,
            "controller": self._link("brokers", controller_id),
            "brokers": self._link("brokers"),
            "consumer_groups": self._link("consumer-groups"),
            "topics": self._link("topics"),
        }

    def clusters(self, controller_id: int) -> Json:
        return {
            "kind": "KafkaClusterList",
            "metadata": {"self": self._root, "next": None},
            "data": [self.cluster(controller_id)],
        }

    def broker(self, broker: MetadataBroker) -> Json:
        return {
            **self._head("KafkaBroker", self._own("brokers", broker.node_id), ("broker", broker.node_id)),
            "cluster_id": self._cluster_id,
            "broker_id": broker.node_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
        }

    def brokers(self, brokers: Iterable[MetadataBroker]) -> Json:
        return self._list("KafkaBrokerList", self._own("brokers"), [self.broker(broker) for broker in brokers])

    def group(self, group: DescribedGroup, coordinator: int) -> Json:
        path = ("consumer-groups", group.group_id)
        return {
            **self._head("KafkaConsumerGroup", self._own(*path), ("consumer-group", group.group_id)),
            "cluster_id": self._cluster_id,
            "consumer_group_id": group.group_id,
            "is_simple": not group.protocol_type,
            "partition_assignor": group.protocol_data,
            "state": state_name(group.group_state),
            "coordinator": self._link("brokers", coordinator),
            "consumer": self._link(*path, "consumers"),
            "lag_summary": self._link(*path, "lag-summary"),
        }

    def groups(self, groups: Iterable[DescribedGroup], coordinators: Mapping[str, int], next_page: str | None) -> Json:
        found = [self.group(group, coordinators[group.group_id]) for group in groups]
        return self._list("KafkaConsumerGroupList", self._own("consumer-groups"), found, next_page)

    def consumer(self, group_id: str, member: DescribedMember) -> Json:
        path = ("consumer-groups", group_id, "consumers", member.member_id)
        names = (("consumer-group", group_id), ("consumer", member.member_id))
        return {
            **self._head("KafkaConsumer", self._own(*path), *names),
            "cluster_id": self._cluster_id,
            "consumer_group_id": group_id,
            "consumer_id": member.member_id,
            "instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "assignments": self._link(*path, "assignments"),
        }

    def consumers(self, group_id: str, members: Iterable[DescribedMember], next_page: str | None) -> Json:
        found = [self.consumer(group_id, member) for member in members]
        return self._list("KafkaConsumerList", self._own("consumer-groups", group_id, "consumers"), found, next_page)

    def assignment(self, group_id: str, consumer_id: str, topic: str, partition: int) -> Json:
        path = ("consumer-groups", group_id, "consumers", consumer_id, "assignments", topic, "partitions", partition)
        names = (
            ("consumer-group", group_id),
            ("consumer", consumer_id),
            ("assignment", topic),
            ("partition", partition),
        )
        return {
            **self._head("KafkaConsumerAssignment", self._own(*path), *names),
            "cluster_id": self._cluster_id,
            "consumer_group_id": group_id,
            "consumer_id": consumer_id,
            "topic_name": topic,
            "partition_id": partition,
            "lag": self._link("consumer-groups", group_id, "lags", topic, "partitions", partition),
        }

    def assignments(
        self, group_id: str, consumer_id: str, keys: Iterable[tuple[str, int]], next_page: str | None
    ) -> Json:
        own = self._own("consumer-groups", group_id, "consumers", consumer_id, "assignments")
        found = [self.assignment(group_id, consumer_id, topic, partition) for topic, partition in keys]
        return self._list("KafkaConsumerAssignmentList", own, found, next_page)

    def lag(self, group_id: str, line: PartitionLag) -> Json:
        path = ("consumer-groups", group_id, "lags", line.topic, "partitions", line.partition)
        names = (("consumer-group", group_id), ("lag", line.topic), ("partition", line.partition))
        return {
            **self._head("KafkaConsumerLag", self._own(*path), *names),
            "cluster_id": self._cluster_id,
            "consumer_group_id": group_id,
            "topic_name": line.topic,
            "partition_id": line.partition,
            "current_offset": line.current_offset,
            "log_end_offset": line.log_end_offset,
            "lag": line.lag,
            "consumer_id": line.member.member_id if line.member else "",
            "instance_id": line.member.group_instance_id if line.member else None,
            "client_id": line.member.client_id if line.member else "",
            "lag_seconds": seconds(line.lag_ms),
            "commit_age_seconds": seconds(line.commit_age_ms),
            **_age(line.end_age_ms),
        }

    def lags(self, group_id: str, lines: Iterable[PartitionLag], next_page: str | None) -> Json:
        found = [self.lag(group_id, line) for line in lines]
        return self._list("KafkaConsumerLagList", self._own("consumer-groups", group_id, "lags"), found, next_page)

    def lag_summary(self, group_id: str, lines: list[PartitionLag]) -> Json:
        """Return the group's lag summary.

        A group without partitions has a lag of 0, and nulls for the largest. If no end is known the lag is null. If
        some are unknown, the sum omits them, and `unknown_partitions` counts them.
        """
        path = ("consumer-groups", group_id, "lag-summary")
        last = worst(lines)
        member = last.member if last else None
        unknown = sum(line.lag is None for line in lines)
        is_known = not lines or unknown < len(lines)
        return {
            **self._head(
                "KafkaConsumerGroupLagSummary", self._own(*path), ("consumer-group", group_id), ("lag-summary", None)
            ),
            "cluster_id": self._cluster_id,
            "consumer_group_id": group_id,
            "max_lag_consumer_id": member.member_id if member else None,
            "max_lag_instance_id": member.group_instance_id if member else None,
            "max_lag_client_id": member.client_id if member else None,
            "max_lag_topic_name": last.topic if last else None,
            "max_lag_partition_id": last.partition if last else None,
            "max_lag": (last.lag if last else 0) if is_known else None,
            "total_lag": sum(line.lag or 0 for line in lines) if is_known else None,
            "max_lag_seconds": seconds(longest_ms(line.lag_ms for line in lines)),
            "commit_age_seconds": seconds(commit_age_ms(lines)),
            **({"unknown_partitions": unknown} if unknown else {}),
            **_age(oldest_ms(lines)),
        }

    def topic(self, topic: MetadataTopicReply) -> Json:
        name = topic.name or ""
        own = self._own("topics", name)
        return {
            **self._head("KafkaTopic", own, ("topic", name)),
            "cluster_id": self._cluster_id,
            "topic_name": name,
            "is_internal": topic.is_internal,
            "replication_factor": max((len(part.replica_nodes) for part in topic.partitions), default=1) or 1,
            "partitions_count": len(topic.partitions),
            "partitions": self._link("topics", name, "partitions"),
        }

    def topics(self, topics: Iterable[MetadataTopicReply], next_page: str | None) -> Json:
        return self._list("KafkaTopicList", self._own("topics"), [self.topic(one) for one in topics], next_page)

    def partition(
        self, topic: str, part: MetadataPartitionReply, begin: PartitionEnd | None, end: PartitionEnd | None
    ) -> Json:
        number = part.partition_index
        own = self._own("topics", topic, "partitions", number)
        return {
            **self._head("KafkaPartition", own, ("topic", topic), ("partition", number)),
            "cluster_id": self._cluster_id,
            "topic_name": topic,
            "partition_id": number,
            "leader": self._link("brokers", part.leader_id),
            "log_start_offset": None if begin is None else begin.offset,
            "log_end_offset": None if end is None else end.offset,
        }

    def partitions(self, topic: str, found: list[Json], next_page: str | None) -> Json:
        return self._list("KafkaPartitionList", self._own("topics", topic, "partitions"), found, next_page)

    def _own(self, *path: str | int) -> str:
        return "/".join((self._root, *(quote(str(part), safe="") for part in (self._cluster_id, *path))))

    def _link(self, *path: str | int) -> Json:
        return {"related": self._own(*path)}

    def _head(self, kind: str, own: str, *names: tuple[str, str | int | None]) -> Json:
        resource = f"crn:///kafka={self._cluster_id}"
        for name, value in names:
            resource += f"/{name}" if value is None else f"/{name}={value}"
        return {"kind": kind, "metadata": {"self": own, "resource_name": resource}}

    def _list(self, kind: str, own: str, data: list[Json], next_page: str | None = None) -> Json:
        """Return a list; `next_page` is the query of its next page."""
        following = None if next_page is None else f"{own}?{next_page}"
        return {"kind": kind, "metadata": {"self": own, "next": following}, "data": data}
