"""The sidebar: models, texts, uploads, and that it is the same on every page."""

from __future__ import annotations

import pytest

from tests.app.conftest import Open, settle

PAGES = ("app.py", "pages/attention.py", "pages/switchboard.py")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_draws_the_same_sidebar(open_app: Open, models: dict[str, str], page: str) -> None:
    app = settle(open_app(page, model=models["gpt2"], off="L0H1,L0H2"))
    assert not app.exception
    labels = [box.label for box in app.sidebar.selectbox]
    assert labels == ["Measured on", "Score heads by", "A head that is off writes"]
    assert app.sidebar.radio[0].options == ["Ready offline", "From the hub or a folder"]
    assert "**2 of 12 heads off**" in [text.value for text in app.sidebar.markdown]
    app.sidebar.button(key="all_on").click().run()
    assert "**0 of 12 heads off**" in [text.value for text in app.sidebar.markdown]


def test_grouped_models_are_asked_for_the_unit(open_app: Open, models: dict[str, str]) -> None:
    app = open_app("pages/attention.py", model=models["llama"])
    assert "Score each" in [box.label for box in app.sidebar.selectbox]


def test_the_count_follows_a_switch_that_runs_only_a_part_of_the_page(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app("pages/switchboard.py", model=models["gpt2"]))
    app.button(key="invert").click().run()
    assert "**12 of 12 heads off**" in [text.value for text in app.sidebar.markdown]
    assert "off=L0,L1,L2" in app.code[0].value


def test_own_text_takes_the_place_of_the_set(open_app: Open, models: dict[str, str]) -> None:
    app = open_app("pages/switchboard.py", model=models["gpt2"])
    app.selectbox(key="_data").set_value("your own text").run()
    assert not app.exception
    assert any("Until there is a text of yours" in caption.value for caption in app.sidebar.caption)
    app.text_area(key="_own_text").set_value("The cat sat on the mat.\n\nThe dog lay on the rug.").run()
    assert not app.exception
    assert not app.error
    assert not any("Until there is" in caption.value for caption in app.sidebar.caption)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("notes.pdf", b"%PDF-1.4", "files of this type"),
        ("empty.txt", b"", "example"),
        ("table.csv", b"wrong,columns\n1,2\n", "columns"),
        ("broken.jsonl", b"{not json}\n", "broken JSON"),
        ("bytes.txt", b"\xff\xfe\x00\x01", "UTF-8"),
        ("long.txt", b"x" * (5 * 2**20 + 1), "more than 5 MB"),
        ("pictures.jsonl", b'{"image": "../secret.png", "label": 0}\n', "folder"),
    ],
)
def test_an_unusable_file_is_one_friendly_line(
    open_app: Open, models: dict[str, str], name: str, content: bytes, words: str
) -> None:
    app = open_app("pages/switchboard.py", model=models["gpt2"])
    app.session_state["hl_own_file"] = (name, content)
    app.selectbox(key="_data").set_value("your own text").run()
    assert not app.exception
    assert len(app.error) == 1
    message = app.error[0].value.replace("\\", "")
    assert words in message
    assert message.startswith(name)
    assert "/tmp" not in message
    assert "\n" not in message
    app.button(key="_upload_remove").click().run()
    assert not app.error


def test_a_good_file_is_read_and_kept_across_pages(open_app: Open, models: dict[str, str]) -> None:
    app = open_app("pages/switchboard.py", model=models["gpt2"])
    app.selectbox(key="_data").set_value("your own text").run()
    app.file_uploader[0].upload("mine.txt", b"The cat sat on the mat.\nThe dog lay on the rug.\n", "text/plain").run()
    app.switch_page("pages/attention.py").run()
    assert not app.exception
    assert any("mine\\.txt" in caption.value for caption in app.sidebar.caption)


@pytest.mark.parametrize(
    "name", ["no-such-model-anywhere", "./no/such/folder", "![x](http://example.com/x.png)", "\x00"]
)
@pytest.mark.parametrize("page", PAGES[1:])
def test_a_model_that_cannot_be_opened_leaves_the_picker(open_app: Open, page: str, name: str) -> None:
    app = open_app(page, model=name)
    assert not app.exception
    assert len(app.error) == 1
    assert "![" not in app.error[0].value
    assert app.sidebar.radio[0].value == "From the hub or a folder"
