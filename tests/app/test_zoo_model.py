"""A model of the zoo in the app: it is measured on the set that it is made for."""

from __future__ import annotations

import pytest

from tests.app.conftest import Open


@pytest.mark.parametrize(("model", "wanted"), [("zoo-gpt2", "small-english"), ("zoo-t5", "number-words")])
def test_its_own_set_comes_first(open_app: Open, model: str, wanted: str) -> None:
    app = open_app("pages/switchboard.py", model=model)
    assert not app.exception
    box = app.selectbox(key="_data")
    assert box.value == wanted
    assert len(set(box.options)) == len(box.options)


def test_other_models_keep_the_default(open_app: Open, models: dict[str, str]) -> None:
    assert open_app("pages/switchboard.py", model=models["gpt2"]).selectbox(key="_data").value == "stories"
