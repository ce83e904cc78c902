"""`python -m interop.ours`: our own client over Kafka's protocol, at a musterd and at an Apache Kafka 4.3.1.

* its tests (`tests`), its row of the table of clients (`row`), groups with others' consumers (`mixed`)
* `python -m interop.ours mixed --server kafka --with java --assignor sticky`: a part of it
* `python -m interop.ours --write`: and what was run goes into docs/interop.md
"""

import argparse
import sys
import tempfile
from pathlib import Path

from interop.ours.mixed import ASSIGNORS
from interop.ours.parts import OTHERS, PARTS, SERVERS, Choice, run


def main() -> int:
    options = _options()
    choice = Choice(
        tuple(options.parts or PARTS),
        tuple(options.server or SERVERS),
        tuple(options.others or OTHERS),
        tuple(options.assignor or ()),
    )
    with tempfile.TemporaryDirectory(prefix="muster-interop-") as scratch:
        failed = run(choice, options.keep or Path(scratch), write=options.write)
    for one in failed:
        print(f"FAILED {one}")
    print(f"{len(failed)} failed" if failed else "all of it passed")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    assignors = sorted({name for names in ASSIGNORS.values() for name in names})
    parser = argparse.ArgumentParser(prog="python -m interop.ours", description="Our own client among others.")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all without any")
    parser.add_argument("--server", action="append", choices=SERVERS, help="may be given again; both without any")
    parser.add_argument(
        "--with", dest="others", action="append", choices=OTHERS, help="whose consumers; may be given again"
    )
    parser.add_argument("--assignor", action="append", choices=assignors, help="may be given again; all without any")
    parser.add_argument("--write", action="store_true", help="put what was run into docs/interop.md")
    parser.add_argument("--keep", type=Path, help="a folder for what the servers and the programs leave and say")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
