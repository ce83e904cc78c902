"""`python -m interop.consumer_groups_tool`: `muster-consumer-groups` and Apache Kafka's own script, at one musterd.

Exits 1 for a difference that is not in `MEANT`.

* `python -m interop.consumer_groups_tool`: all invocations
* `python -m interop.consumer_groups_tool --only reset-offsets`: those with this text
"""

import argparse
import sys
import tempfile
from pathlib import Path

from interop.consumer_groups_tool.playing import Choice, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m interop.consumer_groups_tool", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a part of the command lines; may be given again")
    parser.add_argument("--keep", type=Path, help="a folder for what musterd leaves and says")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-interop-") as scratch:
        failed = run(Choice(tuple(given.only)), given.keep or Path(scratch))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
