"""The head grammar, against plain sets of (site, layer, head)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlens.errors import HeadError
from headlens.heads import Head, HeadSet, LayerShape, SiteShape, Topology


def layer(*heads: int, original: int = 8, groups: int = 4) -> LayerShape:
    kv_of = tuple(h * groups // original for h in range(original))
    return LayerShape(heads, original, kv_of, 4, len({kv_of[h] for h in heads}), True)


FULL = tuple(range(8))
ONE = Topology((SiteShape("self", tuple(layer(*FULL) for _ in range(12))),))
TWO = Topology(tuple(SiteShape(name, (layer(*FULL), layer(*FULL))) for name in ("enc", "dec", "cross")))
# L0: head 1 gone. L1: group 1 (heads 2, 3) and head 4 gone. L2: nothing left.
CUT = Topology((SiteShape("self", (layer(0, 2, 3, 4, 5, 6, 7), layer(0, 1, 5, 6, 7), layer())),))


def labels(topology: Topology, text: str) -> set[tuple[str, int, int]]:
    return {(h.site, h.layer, h.head) for h in topology.parse(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("L3H7", {(3, 7)}),
        ("self.L3H7", {(3, 7)}),
        ("l3h7", {(3, 7)}),
        (" L3H7 , L0H1 ", {(3, 7), (0, 1)}),
        ("L4H0-H5", {(4, h) for h in range(6)}),
        ("L4H2-H2", {(4, 2)}),
        ("L11", {(11, h) for h in range(8)}),
        ("L4H0-H5,L4H3-H7", {(4, h) for h in range(8)}),
        ("L0G1", {(0, 2), (0, 3)}),
        ("L0G1-G2", {(0, h) for h in (2, 3, 4, 5)}),
        ("L3H7,L3H7", {(3, 7)}),
        ("none", set()),
        ("None", set()),
        ("", set()),
    ],
)
def test_what_is_read(text: str, expected: set[tuple[int, int]]) -> None:
    assert labels(ONE, text) == {("self", *place) for place in expected}


def test_sites() -> None:
    assert labels(TWO, "enc.L0H1,cross.L1H0-H1,dec.L1G3") == {
        ("enc", 0, 1),
        ("cross", 1, 0),
        ("cross", 1, 1),
        ("dec", 1, 6),
        ("dec", 1, 7),
    }


@pytest.mark.parametrize(
    ("topology", "text", "named"),
    [
        (ONE, "L12H0", "L12H0"),
        (ONE, "L3H8", "L3H8"),
        (ONE, "L3H5-H8", "L3H5-H8"),
        (ONE, "L3G4", "L3G4"),
        (ONE, "L3H5-H2", "L3H5-H2"),
        (ONE, "L3H1-G2", "L3H1-G2"),
        (ONE, "H3", "H3"),
        (ONE, "L3H7;L4", "L3H7;L4"),
        (ONE, "L3H7,,L4", "L3H7,,L4"),
        (ONE, "L3H7,none", "none"),
        (ONE, "L-1H0", "L-1H0"),
        (ONE, "L1.5", "L1.5"),
        (ONE, "enc.L0", "enc"),
        (ONE, "L٣H1", "L٣H1"),  # only plain digits
        (ONE, "L3H7\nL4\r", "L3H7"),
        (ONE, "x" * 10_000, "xxx"),
        (ONE, "x" * 10_000 + ".L0", "xxx"),
        (TWO, "L0H1", "enc.L0H1"),
        (TWO, "self.L0H1", "self"),
        (TWO, "dec.L2", "dec.L2"),
        (CUT, "L0H1", "L0H1"),
        (CUT, "L0H0-H2", "L0H1"),
        (CUT, "L1G1", "L1G1"),
        (CUT, "L1G0-G2", "L1G1"),
        (CUT, "L2", "L2"),
    ],
)
def test_errors_are_one_short_line_that_names_the_part(topology: Topology, text: str, named: str) -> None:
    with pytest.raises(HeadError) as caught:
        topology.parse(text)
    message = str(caught.value)
    assert "\n" not in message
    assert "\r" not in message
    assert named in message
    assert len(message) < 300


@pytest.mark.parametrize("text", ["L0H1", "L0H0-H2", "L1G1", "L2", "L2H0"])
def test_heads_that_were_removed_are_told_as_gone(text: str) -> None:
    with pytest.raises(HeadError, match="gone"):
        CUT.parse(text)


def test_a_list_without_end_is_refused_before_it_is_read() -> None:
    with pytest.raises(HeadError, match="at most 200000"):
        ONE.parse("L0H0," * 100_000)


def test_labels_of_a_cut_model_stay() -> None:
    assert labels(CUT, "L0") == {("self", 0, h) for h in (0, 2, 3, 4, 5, 6, 7)}
    assert labels(CUT, "L1G2") == {("self", 1, 5)}  # head 4 is gone, the rest of the group is not
    assert len(CUT.heads()) == 12
    shape = CUT.sites[0].layers[1]
    assert shape.groups == (0, 2, 3)
    assert shape.members(2) == (5,)
    assert CUT.sites[0].width() == 8
    assert CUT.sites[0].width("kv") == 4
    assert CUT.sites[0].columns(1, "kv") == (0, 2, 3)
    assert CUT.sites[0].columns(2, "kv") == ()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", "none"),
        ("L1H1,L0H2", "L0H2,L1H1"),
        ("L10H0,L2H0", "L2H0,L10H0"),
        ("L0H2,L0H1", "L0H1,L0H2"),
        ("L0H2,L0H3,L0H1", "L0H1-H3"),
        ("L0H0-H7", "L0"),
        ("L0H0-H6,L0H7", "L0"),
        ("L0G0-G1,L0H6", "L0H0-H3,L0H6"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert ONE.format(ONE.parse(text)) == canonical


def test_canonical_text_of_a_cut_layer_does_not_bridge_a_gap() -> None:
    assert CUT.format(CUT.parse("L0")) == "L0"
    assert CUT.format(CUT.parse("L0H0,L0H2-H4")) == "L0H0,L0H2-H4"
    assert CUT.format(CUT.parse("L1H5-H7,L1H0")) == "L1H0,L1H5-H7"


def test_a_group_has_its_own_label() -> None:
    assert ONE.label("self", 0, 1, "kv") == "L0G1"
    assert TWO.label("cross", 5, 3) == "cross.L5H3"
    assert ONE.members("self", 0, 1, "kv") == (2, 3)
    assert ONE.members("self", 0, 1, "head") == (1,)


def test_head_sets_are_sets() -> None:
    a, b = ONE.parse("L0H0-H3"), ONE.parse("L0H2-H5")
    assert {h.head for h in a | b} == {0, 1, 2, 3, 4, 5}
    assert {h.head for h in a - b} == {0, 1}
    assert Head("self", 0, 0) in a
    assert Head("self", 0, 4) not in a
    assert a == ONE.parse("L0H3,L0H0-H2")
    assert hash(a) == hash(ONE.parse("L0H3,L0H0-H2"))
    assert (a | b).by_layer() == {("self", 0): (0, 1, 2, 3, 4, 5)}
    assert [h.label for h in ONE.parse("L1H0,L0H7")] == ["L0H7", "L1H0"]


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    names = draw(st.sampled_from([("self",), ("enc", "dec", "cross"), ("text", "vision")]))
    sites = []
    for name in names:
        layers = []
        for _ in range(draw(st.integers(1, 12))):
            groups = draw(st.integers(1, 3))
            original = groups * draw(st.integers(1, 4))
            heads = sorted(draw(st.sets(st.integers(0, original - 1))))
            layers.append(layer(*heads, original=original, groups=groups))
        sites.append(SiteShape(name, tuple(layers)))
    return Topology(tuple(sites))


@settings(max_examples=80, deadline=None)
@given(st.data(), topologies())
def test_round_trip(data: st.DataObject, topology: Topology) -> None:
    present = list(topology.heads())
    chosen = HeadSet.of(data.draw(st.lists(st.sampled_from(present), unique=True)) if present else [])
    text = topology.format(chosen)
    assert topology.parse(text) == chosen
    assert topology.format(topology.parse(text)) == text
    assert topology.parse(text.lower()) == chosen


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="LHGlhg0123456789-., selfnocdrx\n\u0660", max_size=30), topologies())
def test_any_text_is_read_or_refused_in_one_line(text: str, topology: Topology) -> None:
    found, message = HeadSet(), ""
    try:
        found = topology.parse(text)
    except HeadError as error:
        message = str(error)
    assert "\n" not in message
    assert found - topology.heads() == HeadSet()
