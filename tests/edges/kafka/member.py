"""A member of a group as a program: commits after every batch what it printed before.

It ends in good order when its standard input does.
"""

import json
import sys
import threading
from contextlib import suppress

from tests.edges.kafka.client import Membership
from tests.edges.kafka.libraries import library_named


def main() -> None:
    what = json.loads(sys.argv[1])
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    library = library_named(what["library"])
    consumer = library.consumer(what["bootstrap"], Membership(**what["membership"]))
    consumer.subscribe(what["topics"])
    assigned = None
    while not over.is_set():
        got = consumer.poll(0.1)
        if consumer.assignment() != assigned:
            assigned = consumer.assignment()
            print(json.dumps({"assigned": sorted(assigned)}), flush=True)
        if got:
            print(json.dumps({"got": [(each.topic, each.partition, each.offset) for each in got]}), flush=True)
            # In the middle of a rebalance it is refused: the next owner begins where the last commit stands.
            with suppress(*library.refusals):
                consumer.commit()
    consumer.close()


if __name__ == "__main__":
    main()
