"""A member of a group, with only the `msgpack` package: `python fifty_lines.py HOST:PORT GROUP SECONDS`.

Start it several times: the members divide the partitions of the topic `work` among them, and each continues to count
from the group's committed offsets.
"""

import itertools
import socket
import sys
import time
from typing import Any

import msgpack

if len(sys.argv) != 4:
    sys.exit("usage: python fifty_lines.py HOST:PORT GROUP SECONDS")
ADDRESS, GROUP, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
HOST, PORT = ADDRESS.rsplit(":", 1)
connection = socket.create_connection((HOST, int(PORT)))
unpacker, numbers = msgpack.Unpacker(), itertools.count()


def call(method: str, **params: Any) -> tuple[Any, str | None]:
    """Return the result and None, or the details of the error and its name."""
    connection.sendall(msgpack.packb([0, next(numbers), method, [params]]))
    while True:
        for kind, *rest in unpacker:
            if kind == 1:
                _, error, result = rest  # one request at a time, so the reply is to ours
                return (error[3], error[1]) if error else (result, None)
            print("told:", rest[0], rest[1][0].get("cause"))
        unpacker.feed(connection.recv(65_536) or sys.exit("the daemon has gone"))


def join(member_id: str) -> tuple[dict[str, Any], list[int]]:
    """Return when all members have joined, and the leader has assigned the partitions."""
    mine = {"group_id": GROUP, "session_timeout_ms": 10_000, "protocol_type": "work", "protocols": [{"name": "turns"}]}
    joined, error = call("JoinGroup", member_id=member_id, **mine)
    if error:
        return join(joined["member_id"] if error == "MEMBER_ID_REQUIRED" else "")
    member = {"group_id": GROUP, "member_id": joined["member_id"], "generation_id": joined["generation_id"]}
    ids = [one["member_id"] for one in joined["members"]]  # only the leader receives them
    shares = [{"member_id": one, "assignment": bytes(range(8)[turn :: len(ids)])} for turn, one in enumerate(ids)]
    synced, error = call("SyncGroup", **member, assignments=shares)
    return join(joined["member_id"]) if error else (member, list(synced["assignment"]))


call("CreateTopics", topics=[{"name": "work", "num_partitions": 8}])
until, (member, partitions), done = time.time() + SECONDS, join(""), dict[int, int]()
while time.time() < until:
    print("generation", member["generation_id"], "partitions", partitions, flush=True)
    topic = [{"name": "work", "partition_indexes": partitions}]
    fetched, _ = call("OffsetFetch", group_id=GROUP, topics=topic)
    done = {one["partition_index"]: max(one["committed_offset"], 0) for one in fetched["topics"][0]["partitions"]}
    error = None
    while not error and time.time() < until:
        time.sleep(0.2)
        done = {partition: count + 1 for partition, count in done.items()}
        counts = [{"partition_index": partition, "committed_offset": count} for partition, count in done.items()]
        call("OffsetCommit", **member, topics=[{"name": "work", "partitions": counts}])
        _, error = call("Heartbeat", **member)
    if error:
        print(error)
        member, partitions = join("" if error == "UNKNOWN_MEMBER_ID" else member["member_id"])
print("done", done)
call("LeaveGroup", group_id=GROUP, member_id=member["member_id"])
