"""The presenter's numbers: measured by the command on a small model, and the shipped ones against what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headlens.charts import story as figures
from headlens.errors import DataError
from headlens.evaluate import evaluate
from headlens.heads import HeadSet
from headlens.interview.prepare import FRACTIONS, SEEDS, prepare, second_copies
from headlens.interview.story import VOITA, load_story, story_file
from headlens.lens import Lens, open_model
from headlens.metrics import METRICS
from headlens.roles.blocks import repeated_blocks
from headlens.ui.presenter import STEPS, notes_page
from tests.small_models import save_llama


@pytest.fixture(scope="module")
def lens(tmp_path_factory: pytest.TempPathFactory) -> Lens:
    return open_model(str(save_llama(tmp_path_factory.mktemp("story") / "small-llama")))


@pytest.fixture(scope="module")
def numbers(lens: Lens) -> dict[str, Any]:
    return prepare(lens, "stories", limit=5)


def encoded(lens: Lens, split: Any) -> Any:
    from headlens.data.encode import encode
    from headlens.data.select import load_data

    return encode(lens, load_data("stories", task=lens.task, split=split, limit=5))


def test_single_effects_are_those_of_evaluate(lens: Lens, numbers: dict[str, Any]) -> None:
    data = encoded(lens, "score")
    expected = np.array(
        [
            [
                evaluate(lens, data, lens.topology.parse(f"L{i}H{j}"), metric=METRICS["loss"]).main.delta
                for j in range(4)
            ]
            for i in range(3)
        ]
    )
    single = numbers["single"]
    assert np.array(single["grid"]) == pytest.approx(expected, abs=1e-4)
    assert single["small"] == int((np.abs(expected) < 0.01).sum())
    assert single["harmful"] == int((expected < -0.01).sum())
    worst = single["worst"][0]
    assert worst["effect"] == pytest.approx(expected.max(), abs=1e-4)
    assert worst["head"] == "L{}H{}".format(*np.unravel_index(expected.argmax(), expected.shape))


def test_the_curve_is_evaluate_on_held_out_text(lens: Lens, numbers: dict[str, Any]) -> None:
    data, single = encoded(lens, "held-out"), np.array(numbers["single"]["grid"]).ravel()
    heads = list(lens.topology.heads())
    order = [heads[i] for i in np.argsort(single, kind="stable")]
    points = numbers["together"]["series"]["exact"][0]
    for fraction, point in zip(FRACTIONS, points, strict=True):
        found = evaluate(lens, data, HeadSet.of(order[: round(fraction * 12)]), metric=METRICS["loss"]).main
        assert (point["loss"], point["change"]) == pytest.approx((found.value, found.delta), abs=1e-4)
    assert len(numbers["together"]["series"]["random"]) == SEEDS
    losses = [seed[-1]["loss"] for seed in numbers["together"]["series"]["random"]]
    assert len(set(losses)) == SEEDS


def test_the_sum_and_the_joint_effect_are_of_the_same_text(lens: Lens, numbers: dict[str, Any]) -> None:
    total = numbers["together"]["sum"]
    single = np.array(numbers["single"]["grid"]).ravel()
    heads = list(lens.topology.heads())
    lowest = [heads[i] for i in np.argsort(single, kind="stable")[: total["heads"]]]
    joint = evaluate(lens, encoded(lens, "score"), HeadSet.of(lowest), metric=METRICS["loss"]).main
    assert total["joint"] == pytest.approx(joint.delta, abs=1e-4)
    assert total["sum"] == pytest.approx(np.sort(single)[: total["heads"]].sum(), abs=1e-3)


def test_copying_counts_the_second_copy_only(lens: Lens, numbers: dict[str, Any]) -> None:
    blocks = repeated_blocks(lens, 50, 2, seed=1)
    assert blocks is not None
    data, repeat = second_copies(blocks), blocks.of("self")
    losses = []
    for example in data.examples:
        ids = example.inputs["input_ids"][None]
        with torch.no_grad():
            logits = lens.model(ids).logits[0]
        first = repeat.front + repeat.block + 1
        for place in range(first, ids.shape[1]):
            losses.append(float(-logits[place - 1].log_softmax(-1)[ids[0, place]]))
            assert ids[0, place] == ids[0, place - repeat.block]
    assert numbers["copying"]["loss"] == pytest.approx(np.mean(losses), abs=1e-4)
    assert numbers["copying"]["tokens"] == len(losses) == 10 * 49


def test_numbers_can_be_written_and_told(numbers: dict[str, Any], tmp_path: Path) -> None:
    numbers = {**numbers, "single": {**numbers["single"], "reliability": None}}
    (tmp_path / "story.json").write_text(json.dumps(numbers, allow_nan=False))
    story = load_story(tmp_path / "story.json")
    assert len(story.steps) == STEPS
    assert "12 attention heads" in story.steps[0].lines[0]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"single": 1}'])
def test_broken_numbers_name_the_command(tmp_path: Path, text: str) -> None:
    (tmp_path / "story.json").write_text(text)
    with pytest.raises(DataError, match=r"benchmarks/story\.py"):
        load_story(tmp_path / "story.json")


def test_the_shipped_story_is_measured_and_says_what_it_measured() -> None:
    story = load_story()
    numbers = json.loads(story_file().read_text(encoding="utf-8"))
    grid = np.array(numbers["single"]["grid"])
    assert numbers["model"]["name"] == "smollm2-135m"
    assert grid.shape == (30, 9)
    assert numbers["single"]["small"] == int((np.abs(grid) < 0.01).sum())
    assert grid.max() == pytest.approx(numbers["single"]["worst"][0]["effect"], abs=1e-5)
    origin = numbers["provenance"]
    assert len(origin["fingerprint"]) == 64
    assert "benchmarks/story.py" in origin["command"]
    assert origin["halves"]["score"]["hash"] != origin["halves"]["held-out"]["hash"]
    assert str(numbers["single"]["small"]) in story.steps[1].lines[0]
    assert len(story.steps) == STEPS == 5
    for told in story.steps:
        assert len(told.lines) <= 3
        assert told.alt
        assert 2 <= len(told.notes) <= 5
        assert max(map(len, told.lines)) < 190
    page = notes_page(story)
    assert all(told.title in page for told in story.steps)


def test_titles_hold_on_the_shipped_numbers() -> None:
    """A title is a claim too."""
    numbers = load_story().numbers
    single, together, row = numbers["single"], numbers["together"], numbers["copying"]["rows"][0]
    assert single["small"] > numbers["model"]["heads"] / 2  # "One at a time, most are not missed"
    exact = together["series"]["exact"][0][2]  # "Together, a good choice beats chance"
    assert exact["change"] + 2 * exact["sem"] < min(seed[2]["change"] for seed in together["series"]["random"])
    total = together["sum"]
    assert abs(total["joint"] - total["sum"]) > 2 * total["sem"]  # "But effects do not add up"
    text, copied = row["induction"]["text"][0], row["induction"]["copy"][0]
    assert copied > 3 * abs(text)  # "Averages hide skills"
    assert copied > max(row["random"]["copy"])


def test_the_published_gaps_are_the_differences_of_the_table() -> None:
    pruned = (29.62, 29.36, 29.06, 28.90, 32.24, 32.23, 32.27)
    scratch = (29.47, 28.95, 28.56, 28.41, 32.23, 31.98, 31.84)
    assert [gap for _, gap in VOITA] == pytest.approx([a - b for a, b in zip(pruned, scratch, strict=True)], abs=1e-9)


@pytest.mark.parametrize("dark", [False, True])
def test_figures_show_the_numbers(numbers: dict[str, Any], dark: bool) -> None:
    grid = numbers["single"]["grid"]
    assert pytest.approx(np.array(grid)) == np.array(figures.head_map(grid, dark=dark).data[0].z).T  # type: ignore[attr-defined]
    assert list(figures.ordered_effects(grid, dark=dark).data[0].y) == sorted(np.ravel(grid))  # type: ignore[attr-defined]
    drawn = figures.curves(numbers["together"], dark=dark)
    lines: dict[str, Any] = {trace.name: trace for trace in drawn.data if trace.name}  # type: ignore[attr-defined]
    assert list(lines["by gradient"].y) == [p["loss"] for p in numbers["together"]["series"]["gradient"][0]]
    assert f"random, {SEEDS} draws" in lines
    bars = figures.copying(numbers["copying"]["rows"], dark=dark).data
    assert bars[0].y[1] == pytest.approx(numbers["copying"]["rows"][0]["induction"]["copy"][0])  # type: ignore[attr-defined]
    assert list(figures.gaps(VOITA, dark=dark).data[0].x) == [gap for _, gap in VOITA]  # type: ignore[attr-defined]
