"""The outcome of many histories, as text."""

from collections.abc import Iterator

from interop.differential.allowed import RULES, Rule
from interop.differential.rounds import Example, Result

_WIDTH = 118


def text(result: Result, command: str, rules: tuple[Rule, ...] = RULES) -> str:
    """The whole of it: numbers, then each kind of difference with a shortest history."""
    return "\n".join(_lines(result, command, rules)) + "\n"


def _lines(result: Result, command: str, rules: tuple[Rule, ...]) -> Iterator[str]:
    unexplained = result.unexplained
    yield f"$ {command}"
    yield f"{result.histories} histories of six clients, put to Apache Kafka 4.3.1 and to musterd in step"
    yield f"{sum(result.asked.values())} answers compared: {_counted(result)}"
    yield f"{result.whole} histories were compared to their end, the others until the first difference after which"
    yield "the two groups are in different states"
    if result.late:
        yield f"{len(result.late)} could not keep to their time and say nothing: {result.late}"
    meant = len(result.examples) - len(unexplained)
    yield f"{meant} kinds of differences that are meant, {len(unexplained)} that are not"
    for example in unexplained:
        yield ""
        yield f"NOT EXPLAINED, in {_histories(result.counts[example.seen.kind])}: {example.seen.kind}"
        yield from _shown(example)
    for rule in rules:
        found = result.examples.get(rule.name)
        if found is not None:
            yield ""
            yield f"{rule.name}: in {_histories(result.counts[rule.name])}"
            yield f"  {rule.reason}"
            yield from _shown(found)
    if result.unstable:
        yield ""
        yield "Seen, and not again when the same history was put again:"
        yield from (f"  {one}" for one in result.unstable)


def _shown(example: Example) -> Iterator[str]:
    yield f"  {example.seen.api} v{example.seen.version} {example.seen.unlike.text()} (seed {example.history.seed})"
    clients = len(example.history.text()) - len(example.history.steps)
    for number, line in enumerate(example.history.text()):
        step = number - clients
        yield f"    {line}" if step < 0 else f"    {step}. {line}"
        yield from (f"       {answer.partition(': ')[2]}" for answer in example.lines if answer.startswith(f"{step}: "))


def _counted(result: Result) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(result.asked.items(), key=lambda one: -one[1]))


def _histories(count: int) -> str:
    return "1 history" if count == 1 else f"{count} histories"
