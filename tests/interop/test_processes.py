"""The harness notices the output of programs, above all their mistakes."""

from pathlib import Path

import pytest

from interop.catalogue import Client
from interop.processes import Failed, Program, crowd, missing

OBEDIENT = """
import sys
print('{"event": "assigned", "partitions": [0, 1]}', flush=True)
print('{"event": "record", "partition": 1, "offset": 4, "value": "x"}', flush=True)
print('noise', flush=True)
for line in sys.stdin:
    if line == "stop\\n":
        sys.exit(0)
"""
DYING = "import sys; print('out of luck', file=sys.stderr); sys.exit(3)"


def _program(folder: Path, text: str) -> Program:
    (folder / "client.py").write_text(text)
    return Program(Client("x", "1", "Python", "$PYTHON client.py"), folder)


def test_what_a_member_says_is_known_and_what_is_no_event_is_passed_over(tmp_path: Path) -> None:
    with crowd(tmp_path) as members:
        member = members.start(_program(tmp_path, OBEDIENT), [])
        members.wait(lambda: bool(member.records), "a record", 20)
        assert member.owned == {0, 1} and member.history == [{0, 1}]
        assert [one[:3] for one in member.records] == [(1, 4, "x")]
        member.stop()
        assert member.ended


def test_a_member_that_ends_by_itself_ends_the_wait_with_its_last_words(tmp_path: Path) -> None:
    with crowd(tmp_path) as members:
        members.start(_program(tmp_path, DYING), [])
        with pytest.raises(Failed, match=r"ended \(3\).*out of luck"):
            members.wait(lambda: False, "what never comes", 20)


def test_what_never_comes_fails_with_what_is_known(tmp_path: Path) -> None:
    with crowd(tmp_path) as members:
        member = members.start(_program(tmp_path, OBEDIENT), [])
        members.wait(lambda: bool(member.owned), "an assignment", 20)
        with pytest.raises(Failed, match=r"not in time; member 1 \(x\) alive owns \[0, 1\] after 1 assignments"):
            members.wait(lambda: False, "what never comes", 0.1)


def test_a_line_that_is_no_event_though_it_begins_like_one_is_told_of(tmp_path: Path) -> None:
    garbled = OBEDIENT.replace("noise", '{"event": "rec{"event": "assigned"}')
    with crowd(tmp_path) as members:
        member = members.start(_program(tmp_path, garbled), [])
        members.wait(lambda: bool(member.garbled), "a garbled line", 20)
        assert 'no JSON: {"event": "rec{' in members.state()


def test_members_are_gone_when_their_story_is_over(tmp_path: Path) -> None:
    with crowd(tmp_path) as members:
        member = members.start(_program(tmp_path, OBEDIENT), [])
    assert member.exit_code == -9


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no answer within 0 s"):
        _program(tmp_path, "import signal; signal.pause()").answer([], tmp_path / "log", 0.3)


def test_a_program_that_fails_is_not_believed(tmp_path: Path) -> None:
    program = _program(tmp_path, "import sys; print('{\"ok\": true}'); sys.exit(1)")
    with pytest.raises(Failed, match="exit code 1"):
        program.answer([], tmp_path / "log", 20)


def test_the_answer_is_the_last_line_and_arguments_arrive_as_they_were(tmp_path: Path) -> None:
    program = _program(tmp_path, "import sys; print('noise'); print(sys.argv[1:])")
    assert program.answer(["a b", "--x", "$HOME"], tmp_path / "log", 20) == "['a b', '--x', '$HOME']"


def test_executables_that_are_not_here_are_named() -> None:
    assert missing(Client("x", "1", "C", "./x", needs=("sh", "no-such-thing-at-all"))) == ("no-such-thing-at-all",)


def test_of_alternatives_one_is_enough() -> None:
    needs = ("no-such-thing-at-all|sh", "no-such-thing-at-all|nor-this")
    assert missing(Client("x", "1", "C", "./x", needs=needs)) == ("no-such-thing-at-all|nor-this",)
