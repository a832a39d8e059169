"""The attention page: what it sends to its figure, for every kind of model and for odd prompts."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from tests.app.conftest import Open, component, settle

PAGE = "pages/attention.py"


def figure(app: AppTest) -> dict[str, Any]:
    """What the page sent to its attention view."""
    return json.loads(component(app, "headlens_attention_view").proto.json)


def weights(sent: dict[str, Any], head: int) -> np.ndarray:
    """The weights of one head, ``[query, key]``."""
    raw = base64.b64decode(sent["full"][str(head)])
    return np.frombuffer(raw, dtype="<u2").reshape(sent["shape"]) / 65535


@pytest.fixture(scope="session")
def vit(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a small ViT: 3 layers of 4 heads, 8 x 8 patches."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    folder = tmp_path_factory.mktemp("vit") / "small-vit"
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=64,
        patch_size=8,
        id2label={number: f"thing {number}" for number in range(5)},
        initializer_range=0.3,
    )
    ViTForImageClassification(config).save_pretrained(folder)
    ViTImageProcessor(size={"height": 64, "width": 64}).save_pretrained(folder)
    return str(folder)


def test_the_figure_shows_the_models_own_patterns(open_app: Open, models: dict[str, str]) -> None:
    from headlens.attention import patterns, prompt_inputs
    from headlens.lens import open_model

    app = open_app(PAGE, model=models["gpt2"])
    app.text_area(key="_prompt").set_value("The cat sat on the mat").run()
    app.session_state["hl_attention_head"] = "L1H2"
    sent = figure(app.run())
    lens = open_model(models["gpt2"])
    expected = patterns(lens, prompt_inputs(lens, "The cat sat on the mat")).pattern["self"][1]
    assert sent["heads"][sent["selected"]]["label"] == "L1H2"
    for head in range(4):
        assert weights(sent, head) == pytest.approx(expected[head], abs=2e-5)
    assert app.markdown[0].value.startswith("**HeadLens") or app.markdown


def test_heads_that_are_off_change_the_patterns_of_later_layers(open_app: Open, models: dict[str, str]) -> None:
    found = []
    for off in ("none", "L0H0-H3"):
        app = open_app(PAGE, model=models["gpt2"], off=off)
        app.session_state["hl_attention_head"] = "L2H1"
        found.append(weights(figure(app.run()), 1))
    assert not np.allclose(found[0], found[1], atol=1e-3)


def test_labels_are_readable_in_every_script(open_app: Open, models: dict[str, str]) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    prompt = "Ein Haus, 你好 مرحبا 👩‍👩‍👧 <b>x</b>"
    app.text_area(key="_prompt").set_value(prompt).run()
    sent = figure(app)
    labels = "".join(sent["key"]["text"])
    assert "Ġ" not in labels
    assert "你¹⁄₃" in sent["key"]["text"]
    assert any("ر" in text for text in sent["key"]["text"])
    assert all(isinstance(number, int) for number in sent["key"]["id"])


def test_encoder_decoder_models_show_three_parts(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["t5"]))
    sent = figure(app)
    assert sent["heads"][0]["label"] == "cross.L0H0"
    assert not sent["causal"]
    queries, keys = sent["shape"]
    assert queries == len(sent["query"]["text"])
    assert keys == len(sent["key"]["text"])
    source = "".join(sent["key"]["text"]).replace("␣", "")
    assert source.startswith("Thisisasmallhouse")
    for site, causal in (("enc", False), ("dec", True)):
        app.session_state["hl_attention_head"] = f"{site}.L1H2"
        sent = figure(app.run())
        assert sent["heads"][sent["selected"]]["label"] == f"{site}.L1H2"
        assert sent["causal"] is causal
        assert sent["shape"][0] == sent["shape"][1]


def test_the_tokens_that_the_model_writes_are_looked_at_too(open_app: Open, models: dict[str, str]) -> None:
    from headlens.generation import Writer
    from headlens.lens import open_model
    from headlens.run import Run

    app = settle(open_app(PAGE, model=models["gpt2"]))
    app.text_area(key="_prompt").set_value("The cat sat").run()
    before = figure(app)["key"]["id"]
    app.segmented_control(key="_written").set_value(8).run()
    sent = figure(settle(app))
    expected = Writer(open_model(models["gpt2"]), "The cat sat", 8, 0, 0.0).write(Run()).ids
    assert sent["key"]["id"] == [*before, *expected]
    assert [note for note in sent["key"]["note"] if "written by the model" in note] != []
    assert any("The model wrote the last 8 tokens" in caption.value for caption in app.caption)


def test_a_long_prompt_is_cut_and_the_page_says_to_what(open_app: Open, models: dict[str, str]) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    app.text_area(key="_prompt").set_value("many words " * 4_000).run()
    assert not app.exception
    assert not app.error
    sent = figure(app)
    assert sent["shape"] == [256, 256]
    assert "512 tokens" in sent["note"]
    assert any("the first 512 are used" in caption.value for caption in app.caption)


@pytest.mark.parametrize("prompt", ["", "   ", "\n\n"])
def test_an_empty_prompt_is_one_friendly_line(open_app: Open, models: dict[str, str], prompt: str) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    app.text_area(key="_prompt").set_value(prompt).run()
    assert not app.exception
    assert [error.value for error in app.error] == ["the prompt is empty; write some text"]


def test_roles_are_named_with_the_text_that_shows_them(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["gpt2"]))
    assert any("L0H0 " in text.value and "role" in text.value for text in app.markdown)
    table = app.dataframe[0].value
    assert list(table["Head"]) == ["L0H0", "L0H1", "L0H2", "L0H3"]
    before = app.text_area(key="_prompt").value
    app.button(key="best_text").click().run()
    after = app.text_area(key="_prompt").value
    assert after not in (before, "")
    assert not app.exception


def test_a_picture_lies_behind_the_patches(open_app: Open, vit: str) -> None:
    app = settle(open_app(PAGE, model=vit))
    sent = figure(app)
    assert sent["view"] == "picture"
    assert (sent["picture"]["rows"], sent["picture"]["columns"], sent["picture"]["prefix"]) == (8, 8, 1)
    assert sent["key"]["text"][:2] == ["[CLS]", "row 1, column 1"]
    simple = sent["picture"]["png"]
    red = io.BytesIO()
    Image.new("RGB", (300, 200), (250, 10, 10)).save(red, "PNG")
    app.session_state["hl_own_picture"] = ("red.png", red.getvalue())
    sent = figure(app.run())
    assert sent["picture"]["png"] != simple
    shown = Image.open(io.BytesIO(base64.b64decode(sent["picture"]["png"].partition(",")[2])))
    assert shown.size == (64, 64)
    assert np.abs(np.asarray(shown)[32, 32].astype(int) - (250, 10, 10)).max() <= 2


@pytest.mark.parametrize(("name", "content"), [("x.png", b"no picture"), ("x.png", b""), ("big.png", b"x" * 6_000_000)])
def test_an_unusable_picture_is_one_friendly_line(open_app: Open, vit: str, name: str, content: bytes) -> None:
    app = open_app(PAGE, model=vit)
    app.session_state["hl_own_picture"] = (name, content)
    app.run()
    assert not app.exception
    assert len(app.error) == 1
    app.button(key="_picture_remove").click().run()
    assert not app.error


def test_a_picture_of_too_many_pixels_is_refused_unread() -> None:
    from headlens.errors import DataError
    from headlens.ui import attention_picture

    huge = io.BytesIO()
    Image.new("1", (9000, 9000)).save(huge, "PNG")
    with pytest.raises(DataError, match="9000 x 9000"):
        attention_picture.open_picture("huge.png", huge.getvalue())


def test_models_without_an_input_here_say_so(tmp_path: Path) -> None:
    from headlens.errors import DataError
    from headlens.ui.attention_source import choose_source

    class Silent:
        title, task, tokenizer = "Some speech model", "audio", None

    with pytest.raises(DataError, match="no input for such models"):
        choose_source(Silent(), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "page", "wanted"),
    [
        ("zoo-t5", "pages/attention.py", "seven hundred twenty-three"),
        ("zoo-gpt2-small", "pages/switchboard.py", "Anna and Leo went to the park. Anna gave the ball to"),
        ("zoo-bert", "pages/switchboard.py", "The keys near the lamp [MASK] old."),
    ],
)
def test_a_model_of_the_zoo_is_asked_in_words_that_it_knows(open_app: Open, model: str, page: str, wanted: str) -> None:
    from headlens.lens import open_model
    from headlens.ui.starts import starts_of

    app = open_app(page, model=model, method="magnitude")
    assert app.text_area(key="_prompt").value == wanted
    lens = open_model(model)
    tokenizer, starts = lens.tokenizer, starts_of(lens)
    assert tokenizer is not None
    for text in (wanted, starts.source, starts.target, starts.masked, *starts.examples.values()):
        ids = tokenizer(text.replace("[MASK]", "is") if "mask_token" not in tokenizer.special_tokens_map else text)
        assert tokenizer.unk_token_id not in ids["input_ids"], text


def test_the_first_prompt_follows_the_model_and_ones_own_stays(open_app: Open, models: dict[str, str]) -> None:
    app = open_app("pages/switchboard.py", model="zoo-gpt2-small", method="magnitude")
    app.query_params["model"] = models["gpt2"]
    app.run()
    assert (app.text_area(key="_prompt").value or "").startswith("When Mary and John")
    app.text_area(key="_prompt").set_value("Mine").run()
    app.query_params["model"] = "zoo-gpt2-small"
    app.run()
    assert app.text_area(key="_prompt").value == "Mine"
