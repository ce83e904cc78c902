from tests.client.balanced.world import World


def test_a_member_starts_connects_reads_and_confirms() -> None:
    world = World()
    log = world.model.configure("1:t:0")
    log.append([b"a", b"b"])
    one = world.member(consume_position="first")
    assert one.start().ok
    assert one.meta().data == {"1:t:0": True}
    assert one.connect("1:t:0").ok
    batch = one.batch()
    assert [record.value for record in batch.messages] == [b"a", b"b"]
    assert (batch.curr, batch.max) == (2, 2)
    assert one.confirm(batch.confirm_ctx).ok
    assert world.model.stored == {"1:t:0": 2}
