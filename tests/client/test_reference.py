"""The client's page says what the client does."""

import inspect
import re

import pytest

import muster
import muster.aio
from tests.client import reference
from tests.client.scenarios import ROOT

PAGE = (ROOT / "docs" / "client.md").read_text()


def test_the_reference_is_current() -> None:
    assert reference.fill(PAGE) == PAGE, "run `make reference`"


def test_every_setting_and_every_error_is_explained_and_nothing_else() -> None:
    clients = (muster.Consumer, muster.GroupMember, muster.Producer, muster.RangeReader)
    named = {name for client in clients for name in reference.settings(client)}
    assert named == reference.MEANINGS.keys()
    assert {one.__name__ for one in reference.errors()} == reference.RAISED.keys()


def test_everything_exported_is_in_the_page() -> None:
    missing = [name for name in (*muster.__all__, *muster.aio.__all__) if f"{name}" not in PAGE]
    assert missing == []


@pytest.mark.parametrize("name", reference.AIO)
def test_both_edges_offer_the_same(name: str) -> None:
    blocking = {one.name for one in reference.members(getattr(muster, name))}
    aio = {one.name for one in reference.members(getattr(muster.aio, name))}
    of_threads, of_loops = {"__iter__"}, {"__aiter__", "__await__"}
    assert blocking - of_threads == aio - of_loops


@pytest.mark.parametrize("name", ["Consumer", "GroupMember", "Producer"])
def test_both_edges_have_the_same_settings(name: str) -> None:
    blocking, aio = reference.settings(getattr(muster, name)), reference.settings(getattr(muster.aio, name))
    assert blocking == aio


@pytest.mark.parametrize("name", reference.BLOCKING)
def test_every_public_method_says_what_it_promises(name: str) -> None:
    assert [one.name for one in reference.members(getattr(muster, name)) if not one.said] == []


def test_links_within_the_page_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    wanted = re.findall(r"\]\(#([^)]+)\)", PAGE)
    assert wanted
    assert [one for one in wanted if one not in anchors] == []


def test_listeners_are_what_both_edges_take() -> None:
    for client in (muster.Consumer.subscribe, muster.aio.Consumer.subscribe):
        assert set(inspect.signature(client).parameters) >= reference.LISTENERS
