"""Figures of the lab: the numbers in them are the results'."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headlens.charts import lab, lab_language, lab_literature, lab_similarity
from headlens.lab.language_results import cells, sharing
from headlens.lab.literature import literature
from headlens.lab.results import Checkpoint
from headlens.lab.similarity import similarity
from tests.unit.lab.invented import never, results, stuck_with_few, study


def traces(figure: go.Figure) -> list[Any]:
    """The figure's traces (plotly's own type says tuple of nothing in particular)."""
    return list(figure.data)


@pytest.mark.parametrize("dark", [False, True])
def test_curves_have_one_line_a_seed_and_one_legend_entry_a_kind(dark: bool) -> None:
    series = {"4 heads": [[(10, 4.0), (20, 1.0)], [(10, 3.0)], []], "8 heads": [[(10, 2.0)]]}
    drawn = traces(lab.learning_curves(series, guessing=4, symbol=1, dark=dark))
    assert [list(trace.y) for trace in drawn] == [[4.0, 1.0], [3.0], [2.0]]
    assert [trace.showlegend for trace in drawn] == [True, False, True]
    assert len({trace.line.color for trace in drawn}) == len({trace.line.dash for trace in drawn}) == 2


def test_the_map_marks_missed_distances() -> None:
    s = study(1)
    result = results(s, never)[s.specs()[0]]
    figure = lab.attention_map(result)
    assert np.shape(traces(figure)[0].z) == (4, 14)
    notes: list[Any] = list(figure.layout.annotations)  # type: ignore[attr-defined]
    assert {note.x: note.text for note in notes} == {"1": "0.00", "4": "0.00", "8": "0.00", "13": "missed 1.00"}


def test_rates_carry_their_exact_intervals() -> None:
    s = study(12)
    tallies = list(s.tallies(results(s, stuck_with_few)).values())
    (trace,) = traces(lab.success_rates(tallies))
    rate = tallies[0].rate
    assert trace.x[0] == rate.value == pytest.approx(4 / 12)
    assert trace.x[0] + trace.error_x["array"][0] == pytest.approx(rate.high)
    assert trace.x[0] - trace.error_x["arrayminus"][0] == pytest.approx(rate.low)
    one = study(1)
    (trace,) = traces(lab.success_rates(list(one.tallies(results(one, never)).values())))
    assert list(trace.error_x["array"]) == [0.0] * 4


def test_every_seed_is_a_point() -> None:
    s = study(12)
    tallies = list(s.tallies(results(s, stuck_with_few)).values())
    figure = lab.losses(tallies)
    drawn = traces(figure)
    assert list(drawn[0].x) == [0.01, 1.0, 1.0] * 4
    assert len(set(drawn[0].y)) == 12
    assert traces(lab.losses([])) == []


def test_paths_and_shares_draw_what_was_measured() -> None:
    s = study(2)
    found = list(results(s, never).values())
    paths = [replace(r, by_size=(4.0, 9.0, 2.0)) for r in found]
    drawn = traces(lab.pruning_paths(paths, guessing=4))
    assert list(drawn[0].y) == [4.0, 6.0, 2.0]  # cut at one and a half times guessing
    checkpoints = (Checkpoint(0, 4.0, (4.0,), None), Checkpoint(600, 0.0, (0.0,), 0.5))
    drawn = traces(lab.prunable_share([replace(r, checkpoints=checkpoints) for r in found]))
    assert list(drawn[0].y) == [None, 0.5]
    assert len(drawn) == 4


def rows(arm: str, heads: int, gaps: list[float], **more: object) -> list[dict[str, object]]:
    return [{"arm": arm, "heads": heads, "seed": i, "gap": g, "flops": 1e9, **more} for i, g in enumerate(gaps)]


def test_gaps_stand_beside_each_other_with_errors_over_seeds() -> None:
    found = cells([*rows("large", 8, [0.1, 0.2]), *rows("scratch", 4, [0.2, 0.4]), *rows("pruned-80", 4, [0.5])])
    drawn = {trace.name: trace for trace in traces(lab_language.gaps(found))}
    scratch = drawn["from scratch, same steps"]
    assert scratch.y[0] == pytest.approx(0.3)
    assert scratch.error_y["array"][0] == pytest.approx(0.1)
    assert drawn["pruned at 80 % of the steps, recovered"].error_y["array"][0] == 0


def test_caches_are_in_bytes() -> None:
    found = sharing(
        [
            *rows("mha", 8, [0.1, 0.2], kv_bytes=1024, prunable=0.5, parameters=7),
            *rows("mqa", 8, [0.3], kv_bytes=128, prunable=0.25, parameters=6),
        ]
    )
    drawn = traces(lab_language.loss_against_cache(found))
    assert [(trace.x[0], trace.y[0]) for trace in drawn] == [(1024, pytest.approx(0.15)), (128, 0.3)]
    assert math.isnan(found[1].gap.sem)


def test_the_published_table_is_drawn_whole() -> None:
    found = literature()
    drawn = traces(lab_literature.pruned_or_scratch(found))
    assert sum(len(trace.y) for trace in drawn) == 2 * len(found.voita) + 4
    assert list(drawn[0].y)[:2] == [29.6, 29.62]


def test_alikeness_is_by_layer_with_what_chance_gives() -> None:
    written = np.random.default_rng(0).normal(size=(3, 50, 4))
    layer = similarity(written, layer=2)
    drawn = traces(lab_similarity.alike_by_layer({"random": [layer]}))
    assert list(drawn[0].x) == ["L2"]
    assert drawn[0].y[0] == layer.mean_cka
    assert drawn[1].y[0] == layer.shuffled
