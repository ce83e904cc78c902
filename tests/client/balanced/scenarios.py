"""The scenarios of client-balanced groups (docs/spec/client-balanced-groups.md#17), by theme, in the order of their
numbers."""

THEMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Starting, and what is refused",
        (
            "start, connect one partition, publish: the record arrives within a second, whatever the balancing period",
            "no topics, a blank one, one of 65 characters: 400, and nothing has started",
            "501 filters, a filter of 257 characters, a blank one: 400",
            "a node that is none of so many: 400 before any network traffic",
            "the same sent raw to the coordinator: 400 from there",
            "a source count of 0: 400",
            "a second start of one object: 400, the first is unaffected",
        ),
    ),
    (
        "Members that must agree",
        (
            "source counts 3 and then 2: 429, which names the value that is wanted",
            "counted and then not, and the other way round: 429 both",
            "two members with one node id: 430, which names the holder",
            "a node that crashed and starts again at once: 430 until its session is over",
            "the same with an instance id: accepted at once; the old object's heartbeat 461, fetch 412, commit 401",
            "the same consumer joins again with another node id: accepted, one member is listed, with the new one",
            "the last member left: the next may have other topics and another source count",
            "members that are not counted may have equal node ids",
            "a member of an ordinary group is there: 424; and the other way round: INCONSISTENT_GROUP_PROTOCOL",
            "both mode and topics differ: 424 comes first",
            "fewer topics, and more: 425",
            "other filters: 426",
            "a topic that does not exist: 431",
            "200 such groups, and the server's balancing passes: none is sent an assignment",
        ),
    ),
    (
        "Owning partitions",
        (
            "connected before the metadata was ever asked for: 404",
            "a key that cannot be subscribed to: 422, nothing is sent",
            "keys that are none: 400",
            "two members connect one key at the same time, 1,000 rounds: exactly one succeeds each time",
            "the loser asks after one second and after five: 421 without traffic, then 410",
            "the owner gives it up: the loser has it, by a newer grant",
            "the owner is killed: the loser has it after the session; the unconfirmed batch comes again",
            "an owner that was paused for 60 s fetches, commits, unregisters: refused, the stored offset is unchanged",
            "what is owned is connected again at another offset: success, the position is unchanged",
        ),
    ),
    (
        "Where reading begins",
        (
            "-1 with 42 stored: the first record is 42",
            "10 with 42 stored: the first record is 10, and 10 is stored",
            "beyond the end, and before the beginning: cut to what there is, success",
            "-1 with nothing stored: beginning, end, end, as the consume position says",
            "always_max with 7 given: 7; after a first attempt that was refused: the end",
            "a refused connect at offset 0: the stored offset of the owner is untouched",
        ),
    ),
    (
        "Giving up, confirming, reading",
        (
            "given up with the batch confirmed, and not: the next owner goes on after it, or gets it again",
            "giving up while the application confirms after a second: about a second, released as consumed",
            "giving up what is not owned: success, no traffic",
            "confirmed twice, and with a context from before it was connected anew: 400",
            "confirmed as not consumed: the same batch again, the offset has not moved",
            "three threads read two partitions: the third waits, then 408; each partition stays in order",
            "nothing is registered, wait 0 and 200 ms: 406 after one slice, after 200 ms",
            "partitions_ready(1000): true when one is connected after 300 ms; else false after 1,000",
        ),
    ),
    (
        "What there is to read changes",
        (
            "a broker goes down: only its keys are released, no other moves; on return the same owners",
            "a topic grows from 4 to 6: old keys keep their owners, new ones are connected within one loop",
            "a key is no longer configured: its owner gives it up by itself",
        ),
    ),
    (
        "Seeing the group",
        (
            "node 1 of 3 is away for ten minutes: its share is unowned and seen as lag, the others are untouched",
            "three connected, one given up: the report shows two after the next heartbeat, the registry at once",
            "60 heartbeats without a change: the whole list is sent again exactly once",
            "a member leaves: the group lists it no longer, its keys are unowned at once",
            "described while 50 members connect and disconnect: no key under two nodes",
        ),
    ),
    (
        "Leases, restarts, joining again",
        (
            "the coordinator restarts under three members: nobody loses a key, no epoch goes back, a fourth gets 410",
            "cut off for two seconds less than the session: keys are kept",
            "cut off for five seconds more: it stops delivering before another's first delivery of the same key",
            "removed at the server, keys still free: joining again brings them back, nothing is lost or repeated",
            "joining again is refused: all keys are dropped, and the reason surfaces",
            "consume-from-max: positions jump once; an ordinary group is refused",
            "100 published, 40 confirmed: 60 of lag; an unknown end has none",
            "shutdown with five keys, two unconfirmed: all free at once, three committed, two come again",
        ),
    ),
    (
        "Sharing out",
        (
            "10,000 keys in three processes with other hash seeds: the same shares, every key in exactly one",
            "five partitions, two consumers of two threads: P0, P1; P2; P3; P4",
        ),
    ),
)
