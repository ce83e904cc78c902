"""One client against one server: each of its capabilities is tried, and what came of it is a row."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from interop import builds, catalogue
from interop.catalogue import ON_OURS
from interop.judge import Judge
from interop.processes import Failed, Program, missing
from interop.scenarios import Scenario, play, run_to_end
from interop.server import Server
from interop.table import Result, Row, Verdict

COMPANION = "confluent-kafka"


class NotHere(Failed):
    """A client whose executables are not on this machine."""


def program(name: str) -> Program:
    """The client of that folder, built. Raises NotHere, Failed."""
    folder = builds.CLIENTS / name
    client = catalogue.read((folder / "client.toml").read_bytes())
    lacking = missing(client)
    if lacking:
        raise NotHere(f"{client.name} is not here, for want of {', '.join(lacking)}")
    return builds.built(folder, client)


def row(folder: Path, server: Server, capabilities: tuple[str, ...], work: Path) -> Row:
    """Tries what the client offers of these. What the server must not suffer is left out."""
    client = catalogue.read((folder / "client.toml").read_bytes())
    lacking = missing(client)
    if lacking:
        print(f"{client.name}: not here, for want of {', '.join(lacking)}", flush=True)
        return Row(client, (), lacking)
    chosen = [capability for capability in capabilities if client.offers(capability)]
    if not server.is_ours:
        chosen = [capability for capability in chosen if capability not in ON_OURS]
    try:
        built, companion = builds.built(folder, client), program(COMPANION)
    except Failed as failure:
        print(f"{client.name}: {failure}", flush=True)
        return Row(client, tuple(Result(name, Verdict.FAILED, str(failure)) for name in chosen))
    return Row(client, tuple(_cell(built, companion, server, name, work) for name in chosen))


def _cell(built: Program, companion: Program, server: Server, capability: str, work: Path) -> Result:
    scenario = new_scenario(built, companion, server, capability, work)
    story = _driven if capability in built.client.driven else _own
    result = tried(capability, lambda: story(scenario, capability))
    say(f"{built.client.name} {capability}", result)
    return result


def new_scenario(built: Program, companion: Program, server: Server, what: str, work: Path) -> Scenario:
    """Return a scenario with names of its own, and a folder for logs."""
    word = f"{built.folder.name}-{what}-{secrets.token_hex(3)}".replace("_", "-")
    logs = work / "logs" / word
    logs.mkdir(parents=True)
    return Scenario(built, companion, server, Judge(server.bootstrap, server.security), f"t-{word}", f"g-{word}", logs)


def tried(capability: str, story: Callable[[], str]) -> Result:
    """Run a story, and return its result and time."""
    began = time.monotonic()
    try:
        return Result(capability, Verdict.PASSED, story(), time.monotonic() - began)
    except Failed as failure:
        return Result(capability, Verdict.FAILED, str(failure), time.monotonic() - began)


def say(what: str, result: Result) -> None:
    mark = {Verdict.PASSED: "ok", Verdict.FAILED: "FAILED"}.get(result.verdict, result.verdict.value)
    print(f"{what}: {mark} ({result.seconds:.1f} s) {result.detail}", flush=True)


def _driven(scenario: Scenario, capability: str) -> str:
    return play(scenario, capability)


def _own(scenario: Scenario, capability: str) -> str:
    """Runs a capability that is the program's own, and believes its last line."""
    arguments = [capability, "--bootstrap", scenario.judge.bootstrap]
    arguments += ["--topic", scenario.topic, "--group", scenario.group]
    return run_to_end(scenario, arguments)
