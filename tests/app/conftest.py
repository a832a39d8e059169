"""The app in AppTest: every page through ``app.py``, on small models."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from headlens.interview.bank import Bank, load_bank
from tests.small_models import save_bert, save_gpt2, save_llama, save_t5

ROOT = Path(__file__).resolve().parents[2]
Open = Callable[..., AppTest]
LOOK_SECONDS = 5.0
"""Much less than :data:`headlens.ui.job.UNWATCHED_SECONDS`; no page is drawn once more where nothing is slow."""


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of small models by family."""
    root = tmp_path_factory.mktemp("models")
    return {
        "gpt2": str(save_gpt2(root / "small-gpt2")),
        "llama": str(save_llama(root / "small-llama")),
        "t5": str(save_t5(root / "small-t5")),
        "bert": str(save_bert(root / "small-bert")),
        "encoder": str(save_bert(root / "small-encoder", bare=True)),
    }


@pytest.fixture
def open_app() -> Iterator[Open]:
    """``open_app("pages/attention.py", model=..., off=...)`` runs a page as if opened by that link."""

    def run(page: str = "app.py", **query: str) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=90)
        for name, value in query.items():
            app.query_params[name] = value
        if page != "app.py":
            app.switch_page(page)
        return app.run()

    yield run
    st.cache_data.clear()


def settle(app: AppTest, seconds: float = 60) -> AppTest:
    """Runs the page until no background work is going on, looking at it now and then as a browser does.

    On a busy machine work may take longer than it goes on without anybody who looks.
    """
    from headlens.ui.cache import jobs

    looked = time.monotonic()
    end = looked + seconds
    while jobs().running() and time.monotonic() < end:
        time.sleep(0.1)
        if time.monotonic() - looked > LOOK_SECONDS:
            app.run()
            looked = time.monotonic()
    return app.run()


def component(app: AppTest, name: str, number: int = 0) -> Any:
    """The element of one of our own components, by the name that it is registered with."""
    return [one for one in app.get("bidi_component") if one.proto.component_name.endswith(name)][number]  # type: ignore[attr-defined]


def grid(app: AppTest, number: int = 0) -> dict[str, Any]:
    """What the page sent to its head grid."""
    return json.loads(component(app, "headlens_head_grid", number).proto.json)


def click(app: AppTest, off: list[str], seq: int, number: int = 0) -> AppTest:
    """Runs the page as after a click on the grid: the browser sends all heads that are off, and a sequence number."""
    element = component(app, "headlens_head_grid", number)
    states = app._tree.get_widget_states  # AppTest has no public way to drive a component

    def patched() -> Any:
        found = states()
        widget = found.widgets.add()
        widget.id = element.proto.id
        widget.json_value = json.dumps({"mask": {"off": off, "seq": seq}})
        return found

    app._tree.get_widget_states = patched  # type: ignore[method-assign]
    return app.run()


@pytest.fixture(scope="module")
def bank() -> Bank:
    """The question bank."""
    return load_bank()


@pytest.fixture
def learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a learner of its own."""
    monkeypatch.setenv("HEADLENS_DATA", str(tmp_path / "data"))
