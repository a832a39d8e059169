"""Limits: read from the environment and secrets, held by every action itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlens.errors import HeadlensError
from headlens.server import limits
from headlens.server.limits import LimitError


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in limits.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(limits, "_secrets", {})


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLENS_PROFILE", "demo")


def test_on_ones_own_machine_everything_is_allowed(tmp_path: Path) -> None:
    allowed = limits.current()
    for name in ("zoo-gpt2", "Qwen/Qwen3-0.6B", str(tmp_path), "../elsewhere"):
        allowed.check_model(name)
    allowed.check_training()
    allowed.check_downloads("gpt2")


@pytest.mark.parametrize(
    "name",
    [
        "gpt2",
        "Qwen/Qwen3-0.6B",
        "zoo-evil/model",
        "/etc",
        "~",
        "./zoo-gpt2",
        "zoo-/../../etc",
        "zoo-gpt2.gguf",
        "\0",
        "",
    ],
)
@pytest.mark.usefixtures("demo")
def test_the_demo_offers_only_its_models(name: str) -> None:
    with pytest.raises(LimitError):
        limits.current().check_model(name)


@pytest.mark.parametrize("name", ["zoo-gpt2", "zoo-gpt2@500", "smollm2-135m", "minilm-l6"])
@pytest.mark.usefixtures("demo")
def test_the_demo_offers_its_models(name: str) -> None:
    limits.current().check_model(name)


@pytest.mark.usefixtures("demo")
def test_the_demo_opens_what_the_app_has_cut_and_no_neighbour(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADLENS_CACHE", str(tmp_path))
    limits.current().check_model(str(tmp_path / "cuts" / "small"))
    for other in (tmp_path / "cuts", tmp_path / "cuts" / ".." / "models", tmp_path / "cuts-of-others"):
        with pytest.raises(LimitError):
            limits.current().check_model(str(other))


def test_a_link_inside_the_cuts_leads_nowhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADLENS_PROFILE", "demo")
    monkeypatch.setenv("HEADLENS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "cuts").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "cache" / "cuts" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(LimitError):
        limits.current().check_model(str(tmp_path / "cache" / "cuts" / "link"))


def test_a_list_of_models_also_holds_for_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADLENS_MODELS", f"zoo-*, {tmp_path}/*")
    limits.current().check_model(str(tmp_path / "one"))
    limits.current().check_model("zoo-t5")
    for name in (str(tmp_path), str(tmp_path / "one" / "two"), str(tmp_path / "one" / ".." / ".."), "gpt2"):
        with pytest.raises(LimitError):
            limits.current().check_model(name)


def test_one_variable_changes_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLENS_PROFILE", "Demo")
    monkeypatch.setenv("HEADLENS_TRAINING", "on")
    monkeypatch.setenv("HEADLENS_UPLOAD_KB", "64")
    found = limits.current()
    assert (found.profile, found.training, found.upload_bytes, found.downloads) == ("demo", True, 65_536, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADLENS_PROFILE", "public"),
        ("HEADLENS_TRAINING", "maybe"),
        ("HEADLENS_WAITING", "0"),
        ("HEADLENS_WAITING", "-3"),
        ("HEADLENS_UPLOAD_KB", "big"),
        ("HEADLENS_AT_ONCE", "1.5"),
    ],
)
def test_a_value_that_cannot_be_read_opens_nothing(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(HeadlensError, match=name):
        limits.current()


def test_secrets_count_where_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    limits.configure(
        {"HEADLENS_DOWNLOADS": False, "HEADLENS_MODELS": ["zoo-*"], "password": "x", "HEADLENS_WAITING": 7}
    )
    assert (limits.current().downloads, limits.current().models, limits.current().waiting) == (False, ("zoo-*",), 7)
    monkeypatch.setenv("HEADLENS_WAITING", "9")
    assert limits.current().waiting == 9


# The actions themselves


@pytest.mark.usefixtures("demo")
def test_opening_a_model_asks_by_itself(tmp_path: Path) -> None:
    from headlens.lens import open_model
    from headlens.models.loading import load

    for opening in (open_model, load):
        with pytest.raises(LimitError, match="opens no folders"):
            opening(str(tmp_path))
        with pytest.raises(LimitError, match="does not offer"):
            opening("gpt2")


def test_the_hub_asks_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from headlens.models import hub

    monkeypatch.setenv("HEADLENS_DOWNLOADS", "off")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub, "reachable", lambda: pytest.fail("it asked the hub"))
    with pytest.raises(LimitError, match="downloads none"):
        hub.resolve("owner/model")


def test_training_asks_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from headlens.lab.pool import run_all
    from headlens.pruning.learned_gates import learn_gates
    from headlens.pruning.recovery import recover
    from headlens.store import Store

    monkeypatch.setenv("HEADLENS_TRAINING", "off")
    nothing: object = None
    for train in (
        lambda: run_all([], Store(tmp_path)),
        lambda: recover(nothing, nothing, nothing),  # type: ignore[arg-type]
        lambda: learn_gates(nothing, nothing, nothing, nothing),  # type: ignore[arg-type]
    ):
        with pytest.raises(LimitError, match="training is switched off"):
            train()


def test_prompts_uploads_and_imports_ask_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from headlens.interview.progress import MemoryLog, merge
    from headlens.ui.attention_picture import open_picture
    from headlens.ui.own_data import read_upload
    from headlens.ui.prompt import read_prompt

    monkeypatch.setenv("HEADLENS_PROMPT_CHARACTERS", "10")
    monkeypatch.setenv("HEADLENS_UPLOAD_KB", "1")
    lens = SimpleNamespace(tokenizer=object(), accepts=lambda name: True, name="m", task="causal-lm")
    for ask in (
        lambda: read_prompt(lens, "x" * 11),  # type: ignore[arg-type]
        lambda: read_prompt(lens, "short", "t" * 11),  # type: ignore[arg-type]
        lambda: read_upload("a.txt", b"x" * 1025),
        lambda: open_picture("a.png", b"x" * 1025),
        lambda: merge(MemoryLog(), b" " * 4097),
    ):
        with pytest.raises(LimitError, match=r"at most|is more than 1 kB"):
            ask()
