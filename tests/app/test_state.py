"""What travels in the URL: adopted from links, Back and Forward, published by every run, checked before it is used."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.app.conftest import Open, click, grid, settle


def _off(app: AppTest) -> str | None:
    value = app.query_params.get("off")
    return value[0] if isinstance(value, list) else value


def test_a_deep_link_is_adopted_by_whichever_page_is_first(open_app: Open, models: dict[str, str]) -> None:
    app = open_app("pages/switchboard.py", model=models["gpt2"], off="L0H1,L2", ablation="mean", method="magnitude")
    assert grid(app)["off"] == ["L0H1", "L2H0", "L2H1", "L2H2", "L2H3"]
    assert app.selectbox(key="_ablation").value == "mean"
    assert app.selectbox(key="_method").value == "magnitude"
    assert not app.warning


def test_a_switch_is_in_the_url_at_once_and_back_and_forward_undo_it(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app("pages/switchboard.py", model=models["gpt2"], off="L0H1"))
    click(app, ["L1H2"], 1)
    assert _off(app) == "L1H2"
    app.query_params["off"] = "L0H1"  # Back
    app.run()
    assert grid(app)["off"] == ["L0H1"]
    app.query_params["off"] = "L1H2"  # Forward
    app.run()
    assert grid(app)["off"] == ["L1H2"]
    del app.query_params["off"]  # Back to an address from before any switch, on the same page
    app.run()
    assert grid(app)["off"] == []


def test_switching_pages_keeps_the_state_though_it_clears_the_url(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app("pages/switchboard.py", model=models["gpt2"], off="L0H1", ablation="mean"))
    app.query_params.clear()  # what the browser does when a page is chosen in the menu
    app.switch_page("pages/attention.py").run()
    assert _off(app) == "L0H1"
    assert app.query_params["ablation"] in ("mean", ["mean"])
    assert "1 heads are off" in " ".join(caption.value for caption in app.caption)
    app.query_params.clear()
    app.switch_page("pages/switchboard.py").run()
    assert grid(app)["off"] == ["L0H1"]


def test_another_model_forgets_switches_and_their_history(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app("pages/switchboard.py", model=models["gpt2"], off="L0H1"))
    app.button(key="invert").click().run()
    app.text_input(key="_model_typed").set_value(models["llama"]).run()
    settle(app)
    assert not app.exception
    assert grid(app)["off"] == []
    assert _off(app) is None
    assert app.button(key="undo").disabled
    app.query_params["model"] = models["gpt2"]  # Back to the other model
    app.query_params["off"] = "L0H1"
    app.run()
    assert grid(app)["off"] == ["L0H1"]
    assert app.button(key="undo").disabled
    assert app.text_input(key="_model_typed").value == models["gpt2"]


def test_values_that_do_not_exist_are_dropped_with_one_notice(open_app: Open, models: dict[str, str]) -> None:
    app = open_app("pages/switchboard.py", model=models["gpt2"], off="L77H1,L0H1", prompt="my secret")
    assert grid(app)["off"] == ["L0H1"]
    assert _off(app) == "L0H1"
    assert "prompt" not in app.query_params
    assert len([warning for warning in app.warning if "dropped" in warning.value]) == 2
    app.run()
    assert not app.warning


def test_a_notice_quotes_a_link_without_reading_it_as_markup(open_app: Open, models: dict[str, str]) -> None:
    app = open_app("pages/switchboard.py", model=models["gpt2"], method="![x](http://example.com/x.png)")
    assert r"\!\[x\]\(http\:" in app.warning[0].value


def test_no_text_of_the_user_is_in_the_url_or_the_link(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app("pages/switchboard.py", model=models["gpt2"], off="L0H1"))
    app.text_area(key="_prompt").set_value("a very private prompt").run()
    app.selectbox(key="_data").set_value("your own text").run()
    app.text_area(key="_own_text").set_value("one private line\nanother private line").run()
    assert not app.exception
    shown = str(app.query_params) + app.code[0].value
    assert "private" not in shown
    assert "own" not in shown
    assert "off=L0H1" in app.code[0].value
