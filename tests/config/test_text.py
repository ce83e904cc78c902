"""Texts for people: the help and the sample file, both made of the keys."""

import tomllib
from pathlib import Path

from coordinator.config.config import FLAGS, KEYS, Config, load_config
from coordinator.config.help import asked, help_text, sample_config

SAMPLE = Path(__file__).parents[2] / "deploy" / "musterd.toml"


def test_the_sample_file_says_what_the_defaults_say() -> None:
    config = load_config(["--config", "musterd.toml"], {}, lambda _: SAMPLE.read_bytes())
    assert config == Config()


def test_the_sample_file_is_current() -> None:
    assert SAMPLE.read_text() == sample_config(), "make config writes it anew"


def test_the_sample_file_names_and_explains_every_key() -> None:
    text = " ".join(SAMPLE.read_text().replace("\n#", "").split())
    for key in KEYS.values():
        assert f"{key.name} = " in text.replace('"', ""), key.name
        assert key.about in text, key.name


def test_every_commented_line_of_the_sample_file_is_allowed_as_well() -> None:
    commented = [line[2:] for line in sample_config().splitlines() if line.startswith("# ") and " = " in line]
    assert len(commented) == sum(key.default is None for key in KEYS.values())
    tomllib.loads("\n".join(commented))
    # A node that stands in front of a cluster has no users of its own, and access rules neither.
    own = [line for line in commented if line.startswith(("authorizer", "initial.admin", "sasl.oauth"))]
    beside = [line for line in commented if line not in own]
    config = load_config(["--config", "x"], {}, lambda _: "\n".join(beside).encode())
    assert config.cluster_id == "muster"
    own.append('sasl.enabled.mechanisms = "PLAIN,OAUTHBEARER"')
    assert load_config(["--config", "x"], {}, lambda _: "\n".join(own).encode()).has_accounts


def test_the_help_names_every_flag_and_key() -> None:
    text = help_text()
    for flag in [*FLAGS, "--config", "--set", "--help", "--version"]:
        assert flag in text
    for key in KEYS.values():
        assert f"  {key.name} = " in text


def test_help_and_version_are_questions() -> None:
    assert asked(["--set", "node.id=1", "--help"]) == "help"
    assert asked(["-h"]) == "help"
    assert asked(["--version"]) == "version"
    assert asked(["--native", "off"]) is None
