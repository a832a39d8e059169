"""What pages ask for and what is computed for it: every view of a score comes from one computation."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlens.errors import Cancelled
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.lens import Lens
from headlens.metrics import METRICS
from headlens.store import Store
from headlens.ui import available, cache, compute
from headlens.ui.compute import Ask, Partial
from headlens.ui.jobs import Job, Jobs
from headlens.ui.shown import trusted
from tests.unit.helpers import lens_for, random_data


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Lens, Any]:
    """A lens and data, with jobs and a store of their own."""
    jobs, store = Jobs(), Store(tmp_path)
    monkeypatch.setattr(cache, "jobs", lambda: jobs)
    monkeypatch.setattr(cache, "store", lambda: store)
    return lens_for("llama")[0], random_data("llama")


def ask_for(lens: Lens, data: Any, method: str = "ablation", **more: Any) -> Ask:
    return Ask("name", lens.fingerprint, data.hash, method, "loss", signed=True, **more)


def finish(job: Job) -> Job:
    end = time.monotonic() + 60
    while job.running and time.monotonic() < end:
        job.look("me")
        time.sleep(0.01)
    assert job.status == "done", job.error
    return job


def test_asks_that_need_the_same_computation_share_a_key() -> None:
    ask = Ask("one name", "f", "d", "ablation", "loss", signed=True)
    assert replace(ask, model="another name").key == ask.key
    assert replace(ask, ablation="mean").key != ask.key
    assert replace(ask, unit="kv").key != ask.key
    assert replace(ask, signed=False).key != ask.key
    assert replace(ask, signed=False, normalize="layer").base.key == ask.key
    magnitude = replace(ask, method="magnitude")
    assert replace(magnitude, ablation="mean", signed=False).key == magnitude.key


@pytest.mark.parametrize("method", ["ablation", "gradient", "fisher", "confidence"])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("normalize", ["none", "layer"])
def test_every_view_is_what_the_library_says(place: Any, method: str, signed: bool, normalize: str) -> None:
    lens, data = place
    ask = ask_for(lens, data, method)
    finish(compute.score_job(lens, data, ask, "me"))
    view = compute.scores_of(lens, data, replace(ask, signed=signed, normalize=normalize))
    assert view is not None
    expected = score(
        lens,
        METHODS[method],
        Request(METRICS["loss"], data, signed=signed),
        normalize=normalize,  # type: ignore[arg-type]
    ).array
    if method == "ablation" and not signed:
        expected = np.abs(expected)
    np.testing.assert_allclose(view.array, expected, atol=1e-12)


def test_other_views_compute_nothing_again(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, data = place
    ask = ask_for(lens, data)
    first = finish(compute.score_job(lens, data, ask, "me"))

    def never(*_: Any) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(type(METHODS["ablation"]), "compute", never)
    assert compute.score_job(lens, data, replace(ask, signed=False, normalize="layer"), "me") is first
    for signed in (True, False):
        for normalize in ("none", "layer"):
            assert compute.scores_of(lens, data, replace(ask, signed=signed, normalize=normalize)) is not None


def test_a_sweep_publishes_estimates_and_then_layer_by_layer(place: Any) -> None:
    lens, data = place
    seen: list[Partial] = []

    def work(job: Job) -> None:
        collect = compute._Collect(lens, data, ask_for(lens, data), seen.append)
        collect.estimate(lambda *_: None)
        METHODS["ablation"].compute(lens, Request(METRICS["loss"], data, on_unit=collect))

    finish(cache.jobs().start("test", "title", work, "me"))
    layers = len(lens.topology.sites[0].layers)
    assert [partial.layers_done for partial in seen] == list(range(layers + 1))
    estimate = score(lens, METHODS["gradient"], Request(METRICS["loss"], data, signed=True))
    exact = score(lens, METHODS["ablation"], Request(METRICS["loss"], data))
    np.testing.assert_allclose(seen[0].values["self"], estimate.array, atol=1e-12)
    np.testing.assert_allclose(seen[1].values["self"][0], exact.array[0], atol=1e-12)
    np.testing.assert_allclose(seen[1].values["self"][1:], estimate.array[1:], atol=1e-12)
    np.testing.assert_allclose(seen[-1].values["self"], exact.array, atol=1e-12)
    np.testing.assert_allclose(seen[-1].sem["self"], exact.sem["self"], atol=1e-12)


def test_what_an_earlier_server_computed_is_found(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, data = place
    ask = ask_for(lens, data, "fisher")
    first = finish(compute.score_job(lens, data, ask, "me")).result
    fresh = Jobs()
    monkeypatch.setattr(cache, "jobs", lambda: fresh)
    found = available.available(lens, data, ask_for(lens, data))
    assert set(found) == {"fisher", "magnitude", "magnitude-ov"}
    np.testing.assert_array_equal(found["fisher"].array, first.array)


def test_several_methods_one_after_the_other(place: Any) -> None:
    lens, data = place
    asks = [ask_for(lens, data, method) for method in ("output-norm", "confidence")]
    finish(available.scores_together(lens, data, asks, "me"))
    assert {"output-norm", "confidence"} <= set(available.available(lens, data, ask_for(lens, data)))


def test_an_estimate_can_be_cancelled(place: Any) -> None:
    lens, data = place

    def stop(*_: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        compute._Collect(lens, data, ask_for(lens, data), lambda _: None).estimate(stop)


def test_rankings_are_trusted_only_with_a_signal_and_stable_halves(place: Any) -> None:
    lens, data = place
    scores = score(lens, METHODS["gradient"], Request(METRICS["loss"], data))
    for reliability, silent, expected in ((0.9, "", True), (0.4, "", False), (None, "", False), (0.9, "why", False)):
        assert trusted(replace(scores, reliability=reliability, no_signal=silent)) is expected
    assert trusted(score(lens, METHODS["magnitude"], Request(METRICS["loss"])))
