"""`python -m interop`: builds other people's clients, runs them against a server, and prints what came of it.

* `python -m interop`: a fresh musterd, every client that can be built here
* `python -m interop kcat java --only mixed`: some of the clients, some of the capabilities
* `python -m interop --bootstrap 127.0.0.1:9092`: another server, for comparison
* `python -m interop --write`: and the table goes into docs/interop.md
"""

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from interop import builds, catalogue
from interop.catalogue import CAPABILITIES, ON_OURS
from interop.judge import Judge
from interop.processes import Failed, Program, missing
from interop.scenarios import Stage, play, told
from interop.server import Server, serving
from interop.table import Result, Row, Verdict, failures, printed, spliced

PAGE = Path(__file__).parents[1] / "docs" / "interop.md"
COMPANION = "confluent-kafka"


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
            rows = [_row(folder, server, capabilities, work) for folder in folders]
    table = printed(rows)
    print(f"\n{table}")
    if options.write:
        PAGE.write_text(spliced(PAGE.read_text(), table))
    failed = failures(rows)
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


def _row(folder: Path, server: Server, capabilities: tuple[str, ...], work: Path) -> Row:
    client = catalogue.read((folder / "client.toml").read_bytes())
    lacking = missing(client)
    if lacking:
        print(f"{client.name}: not here, for want of {', '.join(lacking)}", flush=True)
        return Row(client, (), lacking)
    chosen = [capability for capability in capabilities if client.offers(capability)]
    if not server.is_ours:
        chosen = [capability for capability in chosen if capability not in ON_OURS]
    try:
        program = builds.built(folder, client)
        companion = _companion()
    except Failed as failure:
        print(f"{client.name}: {failure}", flush=True)
        return Row(client, tuple(Result(name, Verdict.FAILED, str(failure)) for name in chosen))
    return Row(client, tuple(_cell(program, companion, server, name, work) for name in chosen))


def _companion() -> Program:
    folder = builds.CLIENTS / COMPANION
    return builds.built(folder, catalogue.read((folder / "client.toml").read_bytes()))


def _cell(program: Program, companion: Program, server: Server, capability: str, work: Path) -> Result:
    run = secrets.token_hex(3)
    word = f"{program.folder.name}-{capability}-{run}".replace("_", "-")
    logs = work / "logs" / word
    logs.mkdir(parents=True)
    stage = Stage(program, companion, server, Judge(server.bootstrap), f"t-{word}", f"g-{word}", logs)
    began = time.monotonic()
    try:
        detail = play(stage, capability) if capability in program.client.driven else _own(stage, capability)
        result = Result(capability, Verdict.PASSED, detail, time.monotonic() - began)
    except Failed as failure:
        result = Result(capability, Verdict.FAILED, str(failure), time.monotonic() - began)
    mark = "ok" if result.verdict is Verdict.PASSED else "FAILED"
    print(f"{program.client.name} {capability}: {mark} ({result.seconds:.1f} s) {result.detail}", flush=True)
    return result


def _own(stage: Stage, capability: str) -> str:
    """Runs a capability that is the program's own, and believes its last line."""
    arguments = [capability, "--bootstrap", stage.judge.bootstrap, "--topic", stage.topic, "--group", stage.group]
    return told(stage, arguments)


if __name__ == "__main__":
    sys.exit(main())
