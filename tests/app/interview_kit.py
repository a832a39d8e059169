"""What the tests of the interview page share: reading what it shows, and answering what it asks."""

from __future__ import annotations

import re

from streamlit.testing.v1 import AppTest

from headlens.interview.bank import Bank
from headlens.interview.progress import Answer, DiskLog
from headlens.interview.questions import Choice, ChooseAll, Free, Number, Order, Question
from tests.app.conftest import settle

PAGE = "pages/interview.py"


def section(app: AppTest, name: str) -> AppTest:
    app.segmented_control(key="_iv_section").set_value(name)
    return app.run()


def texts(app: AppTest) -> str:
    parts = [*app.markdown, *app.caption, *app.success, *app.error, *app.warning, *app.info]
    return " ".join(part.value for part in parts).replace("\\", "")


def asked(app: AppTest, bank: Bank) -> Question:
    """The question that the page shows, found by its text (numbers of the model cut out)."""
    shown = [heading.value.replace("\\", "") for heading in app.subheader]
    for question in bank.questions.values():
        pattern = re.escape(question.ask).replace(r"\{", "{").replace(r"\}", "}")
        pattern = re.sub(r"{\w+}", ".+", pattern)
        if any(re.fullmatch(pattern, text) for text in shown):
            return question
    raise AssertionError(shown)


def option_places(app: AppTest, question: Choice | ChooseAll) -> list[int]:
    """Number of the option that stands at each place."""
    if isinstance(question, Choice):
        labels = [label.partition("** ")[2] for label in next(r for r in app.radio if r.label == "Your answer").options]
    else:
        labels = [box.label.partition(": ")[2] for box in app.checkbox if box.key and "_tick_" in box.key]
    plain = [label.replace("\\", "") for label in labels]
    return [next(n for n, option in enumerate(question.options) if option.text == text) for text in plain]


def submit(app: AppTest) -> AppTest:
    return next(button for button in app.button if (button.key or "").endswith("_submit")).click().run()


def give(app: AppTest, question: Question, right: bool) -> AppTest:
    """Answers the question that is shown, rightly or wrongly."""
    if isinstance(question, Choice):
        places = option_places(app, question)
        wanted = next(place for place, number in enumerate(places) if (number == question.key) == right)
        next(radio for radio in app.radio if radio.label == "Your answer").set_value(wanted)
    elif isinstance(question, ChooseAll):
        boxes = [box for box in app.checkbox if box.key and "_tick_" in box.key]
        for box, number in zip(boxes, option_places(app, question), strict=True):
            if (number in question.keys) == right:
                box.check()
    elif isinstance(question, Order):
        boxes = [box for box in app.selectbox if "_place_" in (box.key or "")]
        order = list(range(len(question.items))) if right else list(reversed(range(len(question.items))))
        for box, number in zip(boxes, order, strict=True):
            box.set_value(box.options.index(question.items[number].text))
    elif isinstance(question, Number):
        from headlens.interview.quantities import live_or_reference
        from headlens.interview.shape import shape_of
        from headlens.lens import open_model

        model = app.session_state["hl_model"]
        found = live_or_reference(question.quantity, shape_of(open_model(model)), question.options)
        app.text_input(key=key_with(app.text_input, "_number")).set_value(
            str(found.value if right else found.value * 7 + 9)
        )
    elif isinstance(question, Free):
        submit(app)
        if right:
            for box in app.checkbox:
                if "_point_" in (box.key or ""):
                    box.check()
    else:
        next(radio for radio in app.radio if radio.label == "Your prediction").set_value(0)
        return settle(submit(app))
    names = [widget.label for widget in (*app.checkbox, *app.selectbox) if "_iv_" in (widget.key or "")]
    assert not any(set("*\\") & set(name) for name in names)  # a screen reader would read them
    return submit(app)


def key_with(widgets: object, part: str) -> str:
    return next(widget.key for widget in widgets if part in (widget.key or ""))  # type: ignore[attr-defined]


def answers() -> list[Answer]:
    return [event for event in DiskLog().events() if isinstance(event, Answer)]
