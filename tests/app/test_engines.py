"""Where long work is computed, as the sidebar offers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headlens.engine import LocalEngine, WorkerState, current
from headlens.errors import HeadlensError
from headlens.ui import engines
from tests.small_models import save_gpt2

from .conftest import Open, settle


class Here(LocalEngine):
    """Looks like a cluster and computes in this process; a unit that is done again is one unit."""

    def __init__(self) -> None:
        self.units: set[Any] = set()

    @property
    def done(self) -> int:
        return len(self.units)

    def run(self, job: Any, units: Iterable[Any]) -> Iterator[Any]:
        measure = job.measure

        def counted(unit: Any) -> Any:
            found = measure(unit)
            self.units.add(unit)
            return found

        job.measure = counted
        try:
            yield from super().run(job, units)
        finally:
            job.measure = measure

    def workers(self) -> list[WorkerState]:
        return [WorkerState(1, "one", "lost", 2), WorkerState(2, "two", "working", self.done)]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    engines.kept().drop()
    yield
    engines.kept().drop()


def test_a_sweep_goes_to_the_chosen_engine_and_its_workers_are_shown(
    open_app: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Here()
    monkeypatch.setattr(engines, "engine_for", lambda name: engine)
    model = save_gpt2(tmp_path / "never-swept", seed=11)  # what is known already goes to no engine
    app = open_app(model=str(model), method="magnitude")
    choice = app.radio(key="_engine")
    assert choice.value == "local"
    choice.set_value("ray").run()
    assert any("No worker yet" in line.value for line in app.sidebar.markdown)
    app.selectbox(key="_method").set_value("ablation").run()
    settle(app)
    assert not app.exception
    assert engine.done == 3 + 1  # layers, and the baseline
    assert any(
        "1 alive on 1 machine, 1 at work, 6 parts of the work done; 1 lost" in line.value
        for line in app.sidebar.markdown
    )
    table = app.sidebar.dataframe[0].value
    assert table["machine"].tolist() == ["one", "two"]
    assert table["parts done"].tolist() == [2, engine.done]


def test_no_cluster_is_told_on_the_page(open_app: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        raise HeadlensError("no Ray cluster answers at head:6379 (refused)")

    monkeypatch.setattr(engines, "engine_for", nowhere)
    model = save_gpt2(tmp_path / "never-swept", seed=12)
    app = open_app(model=str(model), method="magnitude")
    app.radio(key="_engine").set_value("ray").run()
    app.selectbox(key="_method").set_value("ablation").run()
    settle(app)
    assert not app.exception
    assert any("no Ray cluster answers at head:6379" in line.value for line in app.error)


def test_nothing_is_offered_without_ray_or_to_everybody(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "is_installed", lambda: False)
    app = open_app(model=models["gpt2"], method="magnitude")
    assert not [one for one in app.radio if one.key == "_engine"]
    monkeypatch.setattr(engines, "is_installed", lambda: True)
    assert engines.offered()
    monkeypatch.setenv("HEADLENS_PROFILE", "demo")
    assert not engines.offered()


def test_work_that_stays_here_has_the_local_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    work = engines.placed(lambda job: current())
    assert isinstance(work(None), LocalEngine)  # type: ignore[arg-type]
