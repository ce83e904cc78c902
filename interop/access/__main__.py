"""`python -m interop.access`: ask an Apache Kafka 4.3.1 each API with each kind of ACL, and compare with the file.

`--write` writes the file instead. Exits 1 where the broker answers otherwise than the file says.
"""

import argparse
import difflib
import sys

from bench.builds import NotHere
from bench.processes import scratch
from interop.access import goldens
from interop.access.kafka_answers import ask_kafka


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m interop.access", description="Authorization, asked of Kafka.")
    parser.add_argument("--write", action="store_true", help=f"write {goldens.FILE.name} instead of comparing with it")
    given = parser.parse_args()
    try:
        with scratch(in_memory=True) as folder:
            found = goldens.text(ask_kafka(folder / "kafka"))
    except NotHere as reason:
        print(f"cannot be run here: {reason}", file=sys.stderr)
        return 2
    if given.write:
        goldens.FILE.write_text(found)
        return 0
    known = goldens.FILE.read_text()
    sys.stdout.writelines(
        difflib.unified_diff(known.splitlines(True), found.splitlines(True), goldens.FILE.name, "the broker")
    )
    return int(known != found)


if __name__ == "__main__":
    sys.exit(main())
