"""The state in the URL: it comes back, travels with links, Back and Forward, and never breaks a page."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from headlens.data.builtin import index
from headlens.errors import HeadlensError
from headlens.importance import METHODS
from headlens.ui import state
from headlens.ui.parameters import PARAMETERS
from tests.unit.properties.test_head_sets import PLAIN
from tests.unit.properties.visits import Visit

SETS = [entry.name for entry in index()]
NAMES = [parameter.name for parameter in PARAMETERS]
VALID: dict[str, st.SearchStrategy[str]] = {
    "model": st.sampled_from(["zoo-gpt2", "zoo-t5", "zoo-gpt2@500", "Qwen/Qwen3-0.6B"]),
    "method": st.sampled_from(list(METHODS)),
    "data": st.sampled_from(SETS),
    "ablation": st.sampled_from(["zero", "mean", "resample"]),
    "unit": st.sampled_from(["head", "kv"]),
    "off": st.lists(st.sampled_from(["L0H1", "L1", "L2H0-H3", "L3G1"]), min_size=1, unique=True).map(",".join),
}
STATES = st.fixed_dictionaries({}, optional=VALID)  # type: ignore[arg-type]
ANYTHING = st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=12)), st.text(max_size=60), max_size=8)


@settings(deadline=None, max_examples=100)
@given(STATES)
def test_a_good_link_is_taken_as_it_is(query: dict[str, str]) -> None:
    visit = Visit().open(**query)
    assert {name: visit.value(name) for name in query} == query
    assert visit.warnings == []
    assert query.items() <= visit.url.items()


@settings(deadline=None, max_examples=100)
@given(STATES)
def test_the_link_of_a_state_opens_that_state(query: dict[str, str]) -> None:
    first = Visit().open(**query)
    with first.at_work():
        link = state.query_string()
    second = Visit().open(**dict(urllib.parse.parse_qsl(link.removeprefix("?"))))
    assert [second.value(name) for name in NAMES] == [first.value(name) for name in NAMES]


@settings(deadline=None, max_examples=100)
@given(STATES, STATES)
def test_back_and_forward_bring_each_state_back(one: dict[str, str], other: dict[str, str]) -> None:
    visit = Visit().open(**one)
    first, values = visit.url.to_dict(), [visit.value(name) for name in NAMES]
    visit.open(**other)
    visit.url.from_dict(first)  # Back
    visit.run()
    assert [visit.value(name) for name in NAMES] == values
    assert visit.url.to_dict() == first


@settings(deadline=None, max_examples=100)
@given(STATES)
def test_another_page_keeps_the_state_though_its_address_has_none(query: dict[str, str]) -> None:
    visit = Visit().open(**query)
    values = [visit.value(name) for name in NAMES]
    visit.url.clear()
    visit.run("switchboard")
    assert [visit.value(name) for name in NAMES] == values


@settings(deadline=None, max_examples=400)
@given(ANYTHING)
def test_whatever_the_link_says_the_page_opens_and_is_quiet_afterwards(query: dict[str, str]) -> None:
    visit = Visit()
    visit.url.update(query)
    visit.run()
    checks: dict[str, Callable[[str], str]] = {parameter.name: parameter.check for parameter in PARAMETERS}
    for name in NAMES:
        value = visit.value(name)
        if value and name != "off":
            assert checks[name](value) == value  # what was adopted passes its own check
    assert set(visit.url) <= set(NAMES)
    told, published = list(visit.warnings), visit.url.to_dict()
    visit.run()
    assert (visit.warnings, visit.url.to_dict()) == (told, published)
    assert all("\n" not in warning for warning in told)


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text("LHG0123456789,-. noe", max_size=40), st.text(max_size=60)))
def test_heads_of_a_link_are_checked_and_the_rest_is_dropped_with_a_word(off: str) -> None:
    visit = Visit()
    with visit.at_work():
        state._adopt(state._BY_NAME["off"], off)
        found = state.off_heads(PLAIN)
        again = state.off_heads(PLAIN)
        state.show_notices()
    assert found == again
    assert set(found) <= set(PLAIN.heads())
    try:
        expected = PLAIN.parse(off)
    except HeadlensError:
        assert len(visit.warnings) == 1
    else:
        assert (found, visit.warnings) == (expected, [])
