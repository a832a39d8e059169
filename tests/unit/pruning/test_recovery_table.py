"""The table of a recovery, and its control: random cuts of the same size with the same training."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from headlens.data.encode import encode
from headlens.errors import HeadlensError
from headlens.evaluate import evaluate
from headlens.heads import HeadSet, LayerShape, SiteShape, Topology
from headlens.lens import Lens
from headlens.metrics import METRICS
from headlens.pruning import random_cuts
from headlens.pruning import recovery_table as recovery_tables
from headlens.pruning.cut import cut
from headlens.pruning.outcomes import Outcome
from headlens.pruning.random_cuts import Control, random_cut, unit_of
from headlens.pruning.recovery import recover
from headlens.pruning.recovery_spec import RecoverySpec
from headlens.pruning.recovery_table import RANDOM_RECOVERED, RECOVERED, RecoveryTable, Row, recovery_table
from headlens.store import Store
from tests.unit.models.opened import opened
from tests.unit.pruning.recovery_toys import OFF, data_of, open_lens

SPEC = RecoverySpec(steps=10, learning_rate=2e-3, every=5)


def topology(kv: int = 4) -> Topology:
    """3 layers of 4 heads in ``kv`` groups."""
    layer = LayerShape((0, 1, 2, 3), 4, tuple(h * kv // 4 for h in range(4)), 4, kv, True)
    return Topology((SiteShape("self", (layer,) * 3),))


def test_random_cuts_take_as_many_heads_but_others() -> None:
    shape = topology()
    off = shape.parse("L0H0-H2,L1H1")
    drawn = [random_cut(shape, off, seed) for seed in range(20)]
    assert all(len(one) == 4 and one != off for one in drawn)
    assert len(set(drawn)) > 10
    assert drawn == [random_cut(shape, off, seed) for seed in range(20)]
    heads = {head for one in drawn for head in one}
    assert heads == set(shape.heads())


def test_random_cuts_keep_the_unit_and_the_floor_of_the_choice() -> None:
    grouped = topology(kv=2)
    off = grouped.parse("L0G0,L2G1")
    for seed in range(10):
        found = random_cut(grouped, off, seed, unit="kv")
        assert len(found) == 4
        assert all(len(labels) in (2, 4) and labels[0] % 2 == 0 for labels in found.by_layer().values())
    floored = [random_cut(topology(), topology().parse("L0H0-H1,L1H0-H1,L2H0"), seed, floor=2) for seed in range(10)]
    assert all(len(labels) <= 2 for one in floored for labels in one.by_layer().values())
    assert all(len(one) == 5 for one in floored)
    # Heads that were named by hand: whole groups are compared with whole groups, which save their keys and values too.
    assert unit_of(grouped, off) == "kv"
    assert unit_of(grouped, grouped.parse("L0G0,L1H0")) == "head"
    assert unit_of(topology(), topology().parse("L0,L1H1")) == "head"
    # Where the chosen cut itself broke the floor or a group, the random ones need not keep it.
    assert len(random_cut(topology(), topology().parse("L0,L1,L2H0"), 0, floor=2)) == 9
    assert len(random_cut(grouped, grouped.parse("L0H0,L1H0,L2H1"), 0, unit="kv")) == 3


def test_there_must_be_another_way_to_take_so_many() -> None:
    layer = LayerShape((0, 1), 2, (0, 1), 4, 2, True)
    small = Topology((SiteShape("self", (layer,)),))
    with pytest.raises(HeadlensError, match="no other way"):
        random_cut(small, small.heads(), 0)
    assert random_cut(small, small.parse("L0H0"), 0) == small.parse("L0H1")


@pytest.fixture
def table(toy_full: Path, toy_cut: Path, toy_text: Path, tmp_path: Path) -> RecoveryTable:
    """Two random cuts beside the chosen one."""
    lens, full = open_lens(toy_cut), open_lens(toy_full)
    data = data_of(lens, toy_text)
    found = recover(lens, data, SPEC, full=full, keep_in=tmp_path)
    return recovery_table(found, data, full, Control(2, keep_in=tmp_path, store=Store(tmp_path / "store")))


def test_the_rows_are_what_evaluate_measures(
    table: RecoveryTable, toy_full: Path, toy_cut: Path, toy_text: Path
) -> None:
    full = open_lens(toy_full)
    names = [row.name for row in table.rows]
    assert names == ["full", "cut", "cut + recovered", *["random cut", "random cut + recovered"] * 2]
    report = encode(full, data_of(full, toy_text).report)
    metric = METRICS["loss"]

    def loss(lens: Lens) -> float:
        return evaluate(lens, report, HeadSet(), metric=metric).main.baseline

    assert table.values("full") == [loss(full)]
    assert table.values("cut") == [loss(open_lens(toy_cut))]
    for row in table.named("random cut"):
        off = full.topology.parse(row.off)
        assert len(off) == len(full.topology.parse(OFF))
        assert row.off != OFF
        assert row.heads == 2
        assert row.outcome.value("loss")[0] == loss(Lens(cut(full, off).loaded))
    assert table.named("full")[0].outcome.value("drift")[0] == 0
    frame = table.to_frame()
    assert list(frame["name"]) == names
    assert list(frame["seed"].dropna()) == [0, 0, 1, 1]
    assert frame["loss_delta"].tolist()[0] == 0


def test_finished_random_cuts_are_not_made_again(
    toy_full: Path, toy_cut: Path, toy_text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lens, full = open_lens(toy_cut), open_lens(toy_full)
    data = data_of(lens, toy_text)
    found = recover(lens, data, SPEC, full=full, keep_in=tmp_path)
    control = Control(1, keep_in=tmp_path, store=Store(tmp_path / "store"))
    first = recovery_table(found, data, full, control)
    calls: list[int] = []
    original = random_cuts.recover

    def counted(*arguments: object, **more: object) -> object:
        calls.append(1)
        return original(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(random_cuts, "recover", counted)
    again = recovery_table(found, data, full, control)
    assert not calls
    assert again.describe() == first.describe()
    recovery_table(found, data, full, dataclasses.replace(control, resume=False))
    assert calls == [1]


def test_the_sentence_names_the_control_and_its_range(table: RecoveryTable) -> None:
    random = table.values(RANDOM_RECOVERED)
    said = table.control()
    assert f"{min(random):.4g} to {max(random):.4g}" in said
    assert f"{table.values(RECOVERED)[0]:.4g}" in said
    assert "with 2 cuts only" in said
    without = dataclasses.replace(table, rows=table.rows[:3])
    assert "nothing says whether the choice of heads mattered" in without.control()
    one = dataclasses.replace(table, rows=table.rows[:5])
    assert "no spread" in one.control()


def test_what_comes_back_has_its_error(table: RecoveryTable) -> None:
    """Against a bootstrap over examples, which draws the three models' sums together."""
    (full,), (cut_row,), (trained,) = (table.named(name) for name in ("full", "cut", RECOVERED))
    sums = [row.outcome.sums for row in (full, cut_row, trained)]
    weight, nll = sums[0]["weight/loss"], np.array([one["numerator/loss"] for one in sums])
    drawn = np.random.default_rng(0).integers(0, len(weight), (4000, len(weight)))
    loss = nll[:, drawn].sum(2) / weight[drawn].sum(1)
    low, high = np.quantile((loss[1] - loss[2]) / (loss[1] - loss[0]), (0.025, 0.975))
    said = table.sentences()[0]
    found = re.search(r"takes back (-?\d+) % of it \(.*; 95 % interval (-?\d+) to (-?\d+) %\)", said)
    assert found is not None, said
    share, told_low, told_high = (int(number) / 100 for number in found.groups())
    assert told_low < share < told_high
    assert [told_low, told_high] == pytest.approx([low, high], abs=0.25 * (high - low) + 0.01)
    none = dataclasses.replace(full, outcome=cut_row.outcome)
    slight = dict(cut_row.outcome.sums)
    slight["numerator/loss"] = slight["numerator/loss"] + np.random.default_rng(1).normal(0.001, 1, len(weight))
    noisy = dataclasses.replace(cut_row, outcome=Outcome(cut_row.outcome.task, slight))
    if noisy.outcome.value("loss")[0] <= none.outcome.value("loss")[0]:
        none, noisy = dataclasses.replace(none, outcome=noisy.outcome), dataclasses.replace(noisy, outcome=none.outcome)
    told = dataclasses.replace(table, rows=(none, noisy, trained)).sentences()[0]
    assert "cannot be told from nothing here, so that share has no error bar" in told


@pytest.mark.parametrize(
    ("mine", "random", "words"),
    [
        (1.0, [2.0, 2.01, 1.99, 2.0], "is better than chance"),
        (3.0, [2.0, 2.01, 1.99, 2.0], "is worse than chance"),
        (1.0, [1.5, 3.0, 2.2], "better than each of them, but"),
        (2.0, [1.5, 3.0, 2.2], "not told apart from chance"),
    ],
)
def test_the_verdict_of_the_control(mine: float, random: list[float], words: str) -> None:
    def row(name: str, seed: int | None, value: float) -> Row:
        sums = {"numerator/loss": np.full(4, value), "weight/loss": np.ones(4)}
        return Row(name, seed, 2, "L0", Outcome("causal-lm", sums))

    rows = [row(RECOVERED, None, mine), *(row(RANDOM_RECOVERED, n, value) for n, value in enumerate(random))]
    said = RecoveryTable(tuple(rows), "loss").control()
    assert words in said
    n, mean, sd = len(random), np.mean(random), np.std(random, ddof=1)
    reach = stats.t.ppf(0.975, n - 1) * sd * np.sqrt(1 + 1 / n)
    assert f"between {max(0.0, mean - reach):.4g} and {mean + reach:.4g}" in said


def test_a_control_needs_the_full_model(toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    lens = open_lens(toy_cut)
    data = data_of(lens, toy_text)
    found = recover(lens, data, SPEC, keep_in=tmp_path)
    for control in (Control(1), Control(full_too=True)):
        with pytest.raises(HeadlensError, match="--teacher"):
            recovery_table(found, data, None, control)
    assert [row.name for row in recovery_table(found, data, None).rows] == ["cut", "cut + recovered"]


def test_shared_layers_have_no_random_cuts_and_the_work_is_not_lost(
    toy_full: Path, toy_cut: Path, toy_text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recovery_tables._shares(opened("albert").lens)
    assert not recovery_tables._shares(opened("bert").lens)
    lens, full = open_lens(toy_cut), open_lens(toy_full)
    data = data_of(lens, toy_text)
    found = recover(lens, data, SPEC, full=full, keep_in=tmp_path)
    monkeypatch.setattr(recovery_tables, "_shares", lambda _: True)
    table = recovery_table(found, data, full, Control(1))
    assert [row.name for row in table.rows] == ["full", "cut", "cut + recovered"]
    assert "layers share their weights" in table.notes[0]


def test_the_full_model_may_be_trained_the_same_way(
    toy_full: Path, toy_cut: Path, toy_text: Path, tmp_path: Path
) -> None:
    lens, full, other = open_lens(toy_cut), open_lens(toy_full), open_lens(toy_full)
    data = data_of(lens, toy_text)
    found = recover(lens, data, SPEC, full=full, keep_in=tmp_path / "a")
    control = Control(full_too=True, keep_in=tmp_path / "b")
    table = recovery_table(found, data, full, control)
    wanted = recover(other, data, SPEC, full=full, keep_in=tmp_path / "c")
    (row,) = table.named("full + the same training")
    assert row.outcome.value("loss") == wanted.after.value("loss")
    assert row.heads == 8
    assert full.fingerprint == open_lens(toy_full).fingerprint
    assert any("trained the same way, ends at" in sentence for sentence in table.sentences())
    taught = dataclasses.replace(found, spec=dataclasses.replace(SPEC, objective="distill"))
    assert "its own teacher" in recovery_table(taught, data, full, control).notes[0]
