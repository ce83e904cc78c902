"""`python -m interop.consumer`: others' consumers with `group.protocol=consumer`, at Apache Kafka 4.3.1 and musterd.

* `python -m interop.consumer`: all clients that can, all stories, both servers side by side
* `python -m interop.consumer java --only static --server muster`: a part of it
* `python -m interop.consumer --write`: and the table goes into docs/interop.md
"""

import argparse
import sys
import tempfile
from pathlib import Path

from interop.consumer.playing import CLIENTS, SERVERS, Choice, run
from interop.consumer.stories import STORIES


def main() -> int:
    given = _options()
    choice = Choice(tuple(given.clients or CLIENTS), tuple(given.only or STORIES), tuple(given.server or SERVERS))
    with tempfile.TemporaryDirectory(prefix="muster-interop-") as scratch:
        failed = run(choice, given.keep or Path(scratch), write=given.write)
    print(f"{len(failed)} failed at musterd" if failed else "all of it passed at musterd")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m interop.consumer", description="Others' consumers in groups that the server balances."
    )
    parser.add_argument("clients", nargs="*", help=f"of {', '.join(CLIENTS)}; all without any")
    parser.add_argument("--only", action="append", choices=STORIES, help="one story; may be given again")
    parser.add_argument("--server", action="append", choices=SERVERS, help="may be given again; both without any")
    parser.add_argument("--write", action="store_true", help="put the table into docs/interop.md")
    parser.add_argument("--keep", type=Path, help="a folder for what the servers and the programs leave and say")
    options = parser.parse_args()
    if unknown := set(options.clients) - set(CLIENTS):
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
