"""No question about topics takes more work than everyone else can wait for."""

from coordinator.topics.find_offset import SearchBudget, find_offset
from coordinator.topics.rules import TopicSettings
from partition_log.cleanup_policy import Retain
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.errors import ErrorCode
from protocol.messages.offsets import ListOffsetsPartition
from protocol.messages.topics import Metadata, MetadataTopic
from protocol.record_batch import encode_batch
from tests.node.node_rig import NodeRig
from tests.simulation.disk import SimDisk


def test_searches_by_time_stop_when_they_have_looked_at_enough() -> None:
    store = LogStore(SimDisk(1), "data", StoreLimits(wal_segment_bytes=1 << 18, max_batch_bytes=1 << 16))
    store.open()
    log = store.log("orders-0", Retain())
    store.append(log, encode_batch([(None, None)] * 50, timestamp_ms=7))
    job = store.begin_flush()
    assert job is not None
    job.run(store._disk)
    store.finish_flush(job.up_to)
    effort = SearchBudget(150)
    found = [find_offset(log, ListOffsetsPartition(0, timestamp), effort) for timestamp in (1, -3, 1, -1)]
    late = ErrorCode.REQUEST_TIMED_OUT
    assert [one.error_code for one in found] == [ErrorCode.NONE, ErrorCode.NONE, late, ErrorCode.NONE]
    assert [one.offset for one in found] == [0, 0, -1, 50]


def test_a_topic_asked_for_many_times_is_told_once() -> None:
    rig = NodeRig()
    rig.make_topic()
    reply = rig.ask_inside(Metadata((MetadataTopic("orders"),) * 100))
    assert len(getattr(reply, "topics", ())) == 1


def test_topics_asked_for_are_made_some_at_a_time() -> None:
    rig = NodeRig()
    most = TopicSettings().max_new_topics_per_request
    wanted = Metadata(tuple(MetadataTopic(f"t{n}") for n in range(most + 5)), allow_auto_topic_creation=True)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    first = getattr(rig.ask_inside(wanted), "topics", ())
    assert [topic.error_code for topic in first].count(unknown) == 5
    second = getattr(rig.ask_inside(wanted), "topics", ())
    assert [topic.error_code for topic in second].count(unknown) == 0
