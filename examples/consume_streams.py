"""Reads a topic in threads, one stream per thread: `python consume_streams.py HOST:PORT GROUP TOPIC STREAMS SECONDS`.

Start it several times: the streams of all processes divide the partitions, one owner each. A message counts as consumed
when the next one is requested. So a crash repeats the messages after the last commit, at least the current one, and
loses none.
"""

import sys
import threading
import time

from muster.streams import MessageStream, StreamsConnector


def work(number: int, stream: MessageStream) -> None:
    for message in stream:  # until the connector is shut down
        line = f"stream {number} got {message.partition} {message.offset} {message.value}\n"
        print(line, end="", flush=True)  # in one piece, while other threads print too


def main(bootstrap: str, group: str, topic: str, count: int, seconds: float) -> None:
    with StreamsConnector(bootstrap, group, auto_offset_reset="smallest") as connector:
        streams = connector.create_message_streams({topic: count})[topic]
        print("owns", dict(connector.owned[topic]), flush=True)
        threads = [threading.Thread(target=work, args=numbered) for numbered in enumerate(streams)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
    for thread in threads:
        thread.join()
    print("done")


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit("usage: python consume_streams.py HOST:PORT GROUP TOPIC STREAMS SECONDS")
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
