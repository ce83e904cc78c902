"""`python -m interop`: builds other people's clients, runs them against a server, and prints what came of it.

* `python -m interop`: a fresh musterd, every client that can be built here; then all of `python -m interop.ours`, of
  `python -m interop.beside`, of `python -m interop.consumer`, of `python -m interop.logins` and of
  `python -m interop.consumer_groups_tool`
* `python -m interop kcat java --only mixed`: some of the clients, some of the capabilities
* `python -m interop --bootstrap 127.0.0.1:9092`: another server, for comparison
* `python -m interop --write`: and the table goes into docs/interop.md
"""

import argparse
import sys
import tempfile
from pathlib import Path

from interop import beside, builds, catalogue
from interop.catalogue import CAPABILITIES
from interop.consumer import playing
from interop.consumer_groups_tool import playing as groups_tool
from interop.logins import playing as logins
from interop.ours.parts import Choice, run
from interop.rows import row
from interop.server import serving
from interop.table import PAGE, failures, printed, spliced


def main() -> int:
    options = _options()
    capabilities = tuple(options.only or CAPABILITIES)
    try:
        folders = builds.folders(frozenset(options.clients))
    except catalogue.BadClient as bad:
        print(f"interop: {bad}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="muster-interop-") as scratch:
        work = options.keep or Path(scratch)
        with serving(options.bootstrap, work) as server:
            rows = [row(folder, server, capabilities, work) for folder in folders]
        table = printed(rows)
        print(f"\n{table}")
        if options.write:
            PAGE.write_text(spliced(PAGE.read_text(), table))
        failed = failures(rows)
        if not (options.clients or options.only or options.bootstrap):
            failed += run(Choice(), work, write=options.write)
            failed += beside.run(beside.Choice(), work)
            failed += playing.run(playing.Choice(), work, write=options.write)
            failed += logins.run(logins.Choice(), work, write=options.write)
            failed += groups_tool.run(groups_tool.Choice(), work)
    print(f"{len(failed)} failed" if failed else "all of it passed")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop", description="Other people's clients against a server.")
    parser.add_argument("clients", nargs="*", help="folders of interop/clients; all without any")
    parser.add_argument("--bootstrap", help="HOST:PORT of a server that runs already; without it a fresh musterd")
    parser.add_argument("--only", action="append", choices=CAPABILITIES, help="one capability; may be given again")
    parser.add_argument("--write", action="store_true", help="put the table into docs/interop.md")
    parser.add_argument("--keep", type=Path, help="a folder for what the server and the programs leave and say")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
