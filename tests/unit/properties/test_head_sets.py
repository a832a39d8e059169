"""The grammar of head sets: what it means is worked out here by its own rules, and everything else is refused."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headlens.errors import HeadError
from headlens.heads import Head, HeadSet, LayerShape, SiteShape, Topology
from tests.unit.properties.visits import one_line

Term = tuple[str, frozenset[tuple[int, int]]]
"""A term's text, and the (layer, head) that it means in a site."""


def layer(original: int, groups: int, present: tuple[int, ...]) -> LayerShape:
    kv_of = tuple(head * groups // original for head in range(original))
    return LayerShape(present, original, kv_of, 8, len({kv_of[head] for head in present}), True)


PLAIN = Topology((SiteShape("self", tuple(layer(6, 3, tuple(range(6))) for _ in range(4))),))
CUT = Topology(
    (SiteShape("self", (layer(6, 3, (0, 1, 4, 5)), layer(6, 3, (0, 2, 3, 4)), layer(6, 3, tuple(range(6))))),)
)
BOTH = Topology((SiteShape("enc", PLAIN.sites[0].layers), SiteShape("dec", PLAIN.sites[0].layers[:2])))


@st.composite
def terms(draw: st.DrawFn, layers: int) -> Term:
    """A term for a site of ``layers`` layers with 6 heads in 3 groups, all present."""
    where = draw(st.integers(0, layers - 1))
    kind = draw(st.sampled_from(["layer", "head", "heads", "group", "groups"]))
    zeros = draw(st.sampled_from(["", "", "0"]))
    if kind == "layer":
        return f"L{where}", frozenset((where, head) for head in range(6))
    most = 5 if kind.startswith("head") else 2
    first = draw(st.integers(0, most))
    last = draw(st.integers(first, most)) if kind.endswith("s") else first
    letter = "H" if most == 5 else "G"
    text = f"L{where}{letter}{zeros if first else ''}{first}" + (
        f"-{draw(st.sampled_from([letter, '']))}{last}" if kind.endswith("s") else ""
    )
    wanted = range(first, last + 1)
    heads = [head for head in range(6) if (head if letter == "H" else head // 2) in wanted]
    return text, frozenset((where, head) for head in heads)


@settings(deadline=None, max_examples=200)
@given(st.lists(terms(4), min_size=1, max_size=8), st.data())
def test_a_list_means_all_that_its_terms_mean(parts: list[Term], data: st.DataObject) -> None:
    text = ",".join(data.draw(st.sampled_from(["", " "])) + part for part, _ in parts)
    try:
        found = PLAIN.parse(text)
    except HeadError:
        assert any(odd in text for odd in ("H0", "G0", "-"))  # written in a way that the grammar does not have
        return
    assert {(head.layer, head.head) for head in found} == frozenset().union(*(meant for _, meant in parts))


@settings(deadline=None, max_examples=200)
@given(st.sets(st.sampled_from(list(BOTH.heads()))))
def test_what_is_written_is_read_back(chosen: set[Head]) -> None:
    heads = HeadSet.of(chosen)
    for topology in (BOTH,):
        assert topology.parse(topology.format(heads)) == heads


@settings(deadline=None, max_examples=200)
@given(st.sets(st.sampled_from(list(CUT.heads()))))
def test_also_in_a_cut_model(chosen: set[Head]) -> None:
    heads = HeadSet.of(chosen)
    assert CUT.parse(CUT.format(heads)) == heads


ALPHABET = "LHGlhg0123456789-., \tencdrossself٣²\u200b\0"


@settings(deadline=None, max_examples=500)
@given(st.one_of(st.text(ALPHABET, max_size=40), st.text(max_size=40)), st.sampled_from([PLAIN, CUT, BOTH]))
def test_anything_is_read_or_refused_in_one_line(text: str, topology: Topology) -> None:
    try:
        found = topology.parse(text)
    except HeadError as error:
        one_line(error, 600)
    else:
        assert set(found) <= set(topology.heads())
        assert topology.parse(topology.format(found)) == found


@settings(deadline=None, max_examples=50)
@given(st.integers(4, 10**30), st.integers(6, 10**30))
def test_what_the_model_does_not_have_is_refused(beyond_layers: int, beyond_heads: int) -> None:
    for text in (f"L{beyond_layers}", f"L0H{beyond_heads}", f"L0H0-H{beyond_heads}", f"L0G{beyond_heads}"):
        try:
            PLAIN.parse(text)
        except HeadError as error:
            one_line(error)
        else:
            raise AssertionError(f"{text} was taken")
