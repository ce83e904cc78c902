"""Records of the notes topic: what one node tells, as another reads it, also of another version."""

import msgspec

from coordinator.cluster_node.nodes import LetGo, News, Taken
from coordinator.gateway.cluster.log_topics import notes_topic
from coordinator.gateway.cluster.news import NewsQueue, decode_news
from coordinator.records.records import Note
from protocol.messages.groups import OffsetChange
from protocol.record_batch import decode_batch, encode_batch, stamp

NOTE = Note("gr\u00fcn", "rebalance", "member joined", "m", "because", 3, 2, "Stable", 17, 4)
LET_GO, TAKEN = LetGo(7, 40, 1_000), Taken(7, 43, 2)


def encode_news(news: list[News], by: str, wall_ms: int) -> bytes:
    queue = NewsQueue(by)
    queue.add(news)
    return queue.next_batch(wall_ms)


def test_what_others_told_is_read_in_order_and_what_is_ones_own_is_not() -> None:
    theirs = encode_news([NOTE, LET_GO, TAKEN], "them", 5)
    own = stamp(encode_news([NOTE], "me", 5), 3)
    assert decode_news(theirs + own, 0, "me") == (4, [NOTE, LET_GO, TAKEN])
    assert decode_news(theirs + own, 0, "them") == (4, [NOTE])


def test_moves_in_a_topic_of_offsets_that_is_gone_are_no_news() -> None:
    queue = NewsQueue("them", "0a")
    queue.add([NOTE, LET_GO, TAKEN])
    batch = queue.next_batch(5)
    assert decode_news(batch, 0, "me", "0b") == (3, [NOTE])
    for log in ("0a", ""):
        assert decode_news(batch, 0, "me", log) == (3, [NOTE, LET_GO, TAKEN])
    of_an_earlier_version = encode_news([TAKEN], "them", 5)
    assert decode_news(of_an_earlier_version, 0, "me", "0b") == (1, [TAKEN])


def test_people_can_read_and_filter_it() -> None:
    (record,) = decode_batch(encode_news([NOTE], "them", 5))
    assert record.key == "gr\u00fcn".encode() and b'"cause":"member joined"' in (record.value or b"")


def test_a_batch_that_was_read_in_part_goes_on_where_it_was_left() -> None:
    assert decode_news(encode_news([NOTE, LET_GO], "them", 5), 1, "me") == (2, [LET_GO])


def test_what_a_later_version_writes_is_read_as_far_as_it_is_understood() -> None:
    later = msgspec.json.decode(msgspec.json.encode(NOTE)) | {"weather": "fine"}
    values = [{"by": "them", "note": later, "mood": 3}, {"by": "them", "of_a_new_kind": {}}, {"note": 1}, 7]
    batch = encode_batch([(b"", msgspec.json.encode(value)) for value in values], timestamp_ms=1)
    assert decode_news(batch, 0, "me") == (4, [NOTE])


def test_damage_is_passed_over() -> None:
    batch = bytearray(encode_news([NOTE], "them", 5))
    batch[-1] ^= 1
    assert decode_news(bytes(batch), 8, "me") == (9, [])
    assert decode_news(b"", 8, "me") == (8, [])


def test_the_topic_keeps_as_much_as_a_node_does() -> None:
    made = notes_topic(3, 32 << 20)
    told = {one.name: one.value for one in made.configs}
    assert (made.name, made.num_partitions, made.replication_factor) == ("__muster_notes", 1, 3)
    assert told["cleanup.policy"] == "delete" and told["retention.ms"] == "-1"
    assert int(told["retention.bytes"] or 0) == 8 * int(told["segment.bytes"] or 0) == 32 << 20


def test_batches_of_large_notes_stay_below_the_topics_limit_and_none_is_lost() -> None:
    changes = tuple(OffsetChange("a-topic-with-a-long-name", number, 10**12 + number) for number in range(2_000))
    large = [msgspec.structs.replace(NOTE, group_id=f"g{number}", changes=changes) for number in range(50)]
    limit = next(int(one.value or 0) for one in notes_topic(3, 32 << 20).configs if one.name == "max.message.bytes")
    queue = NewsQueue("them")
    queue.add(large)
    found: list[News] = []
    while queue:
        batch = queue.next_batch(5)
        assert len(batch) < limit
        found += decode_news(batch, 0, "me")[1]
    assert found == large


def test_the_oldest_records_are_dropped_if_brokers_take_none() -> None:
    queue = NewsQueue("them")
    queue.add([msgspec.structs.replace(NOTE, wall_ms=number) for number in range(20_500)])
    assert len(queue) == 20_000
    assert decode_news(queue.next_batch(5), 0, "me")[1][0] == msgspec.structs.replace(NOTE, wall_ms=500)
    queue.add([msgspec.structs.replace(NOTE, detail="d" * (1 << 20), wall_ms=number) for number in range(17)])
    assert len(queue) == 15
