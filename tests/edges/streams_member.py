"""A process that reads a topic through one stream, slowly: `streams_member HOST:PORT MILLISECONDS SETTING=NUMBER ...`.

What it says, a line each: `starting PARTITIONS`, `releasing PARTITIONS`, `got PARTITION OFFSET`, `error SENTENCE`.
"""

import sys
import time
from typing import Any

from muster.streams import StreamsConnector


class Listener:
    def before_releasing(self, owned: Any) -> None:
        print("releasing", *owned.get("t", {}), flush=True)

    def before_starting(self, owned: Any, _everyone: Any) -> None:
        print("starting", *owned.get("t", {}), flush=True)


def main(bootstrap: str, each_ms: int, settings: dict[str, Any]) -> None:
    with StreamsConnector(
        bootstrap,
        "group",
        auto_offset_reset="smallest",
        on_error=lambda error: print("error", error, flush=True),
        **settings,
    ) as connector:
        connector.set_rebalance_listener(Listener())
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        for message in stream:
            print("got", message.partition, message.offset, flush=True)
            time.sleep(each_ms / 1000)


if __name__ == "__main__":
    pairs = (setting.split("=") for setting in sys.argv[3:])
    main(sys.argv[1], int(sys.argv[2]), {name: int(number) for name, number in pairs})
