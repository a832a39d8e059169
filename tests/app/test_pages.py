"""Every page: opened by its link, with a good and a bad state, on several families."""

from __future__ import annotations

import pytest

from tests.app.conftest import ROOT, Open, click, grid, settle

ODD_PROMPTS = ("", "   ", "word " * 10_000, "👩‍👩‍👧 مرحبا 你好", "<b>bold</b><script>alert(1)</script>")
LIVE = ("app.py", "pages/attention.py", "pages/switchboard.py")
"""Pages that look at the model's heads as soon as they are opened."""
OTHERS = tuple(f"pages/{name}.py" for name in ("prune", "lab", "claims", "families", "interview"))
PAGES = (*LIVE, *OTHERS)
OPENED = [
    *((page, family) for page in LIVE for family in ("gpt2", "llama", "t5", "bert", "encoder")),
    *((page, family) for page in OTHERS for family in ("gpt2", "encoder")),
]
pytestmark = pytest.mark.usefixtures("learner")


def test_no_page_is_forgotten() -> None:
    there = {f"pages/{path.name}" for path in (ROOT / "pages").glob("*.py")}
    assert there - {"pages/health.py"} == {*PAGES} - {"app.py"}  # that one has tests of its own


@pytest.mark.parametrize(("page", "family"), OPENED)
def test_every_page_opens_by_its_link(open_app: Open, models: dict[str, str], page: str, family: str) -> None:
    app = settle(open_app(page, model=models[family]))
    assert not app.exception
    assert [error.value for error in app.error] == []
    assert app.title


def test_the_map_shows_every_head_with_its_exact_score(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(model=models["gpt2"]))
    found = grid(app)["grids"][0]
    assert found["name"] == "Heads"
    assert [len(row) for row in found["text"]] == [4, 4, 4]
    from headlens.data.encode import encode
    from headlens.data.select import load_data
    from headlens.importance import METHODS, Request
    from headlens.importance.score import score
    from headlens.lens import open_model
    from headlens.metrics import METRICS

    lens = open_model(models["gpt2"])
    data = encode(lens, load_data("stories", task=lens.task, split="score"))
    scores = score(lens, METHODS["ablation"], Request(METRICS["loss"], data)).array
    shown = [[float(text) for text in row] for row in found["text"]]
    assert shown == pytest.approx(scores, abs=1e-4)


def test_a_click_changes_the_loss_to_what_evaluate_says(open_app: Open, models: dict[str, str]) -> None:
    app = click(settle(open_app(model=models["gpt2"])), ["L1H2", "L2H0"], 1)
    assert not app.exception
    from headlens.data.select import live_set
    from headlens.evaluate import evaluate
    from headlens.lens import open_model
    from headlens.metrics import METRICS

    lens = open_model(models["gpt2"])
    off = lens.topology.parse("L1H2,L2H0")
    expected = evaluate(lens, live_set(lens), off, metric=METRICS["loss"]).main
    loss = next(metric for metric in app.metric if metric.label.startswith("Loss"))
    assert float(loss.value) == pytest.approx(expected.value, abs=1e-4)
    assert float(loss.delta) == pytest.approx(expected.delta, abs=1e-4)
    assert grid(app)["off"] == ["L1H2", "L2H0"]


def test_heads_in_the_link_are_off_and_switch_all_on_restores(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app("pages/switchboard.py", model=models["gpt2"], off="L0H1,L2"))
    assert grid(app)["off"] == ["L0H1", "L2H0", "L2H1", "L2H2", "L2H3"]
    app.button(key="all_on").click().run()
    assert grid(app)["off"] == []


@pytest.mark.parametrize(
    "query",
    [
        {"off": "L99H1"},
        {"off": "<script>alert(1)</script>"},
        {"method": "astrology"},
        {"data": "no-such-set"},
        {"ablation": "soft"},
        {"unit": "leg"},
        {"off": "L0H0," * 9000},
    ],
)
def test_a_broken_link_is_dropped_with_a_notice(open_app: Open, models: dict[str, str], query: dict[str, str]) -> None:
    app = open_app(model=models["gpt2"], **query)
    assert not app.exception
    assert any("dropped" in warning.value for warning in app.warning)


@pytest.mark.parametrize("page", PAGES)
def test_an_unknown_model_is_one_friendly_line(open_app: Open, page: str) -> None:
    app = open_app(page, model="no-such-model-anywhere")
    assert not app.exception
    assert len(app.error) == 1
    assert "\n" not in app.error[0].value


@pytest.mark.parametrize("prompt", ODD_PROMPTS)
@pytest.mark.parametrize("page", LIVE[1:])
def test_odd_prompts_are_answered_in_place(open_app: Open, models: dict[str, str], page: str, prompt: str) -> None:
    app = open_app(page, model=models["gpt2"])
    app.text_area(key="_prompt").set_value(prompt).run()
    assert not app.exception


def test_undo_and_redo(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app("pages/switchboard.py", model=models["gpt2"]))
    app.button(key="random").click().run()
    chosen = grid(app)["off"]
    assert len(chosen) == round(0.2 * 12)
    app.button(key="undo").click().run()
    assert grid(app)["off"] == []
    app.button(key="redo").click().run()
    assert grid(app)["off"] == chosen


def test_another_model_forgets_the_switches(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(model=models["gpt2"], off="L1H1"))
    app.text_input(key="_model_typed").set_value(models["llama"]).run()
    settle(app)
    assert not app.exception
    assert grid(app)["off"] == []
