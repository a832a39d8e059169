"""The bank that comes with HeadLens: every question can be asked, answered, explained and traced to its source."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from headlens.errors import DataError
from headlens.interview.bank import Bank, cite_text, interview_dir, load_bank
from headlens.interview.claims import CLAIMS
from headlens.interview.grading import mark_number
from headlens.interview.quantities import QUANTITIES, live, live_or_reference
from headlens.interview.questions import KINDS, Choice, ChooseAll, Free, Number, Order, Predict
from headlens.interview.schema import LEVELS, TOPICS
from headlens.interview.shape import GPT2_SMALL, shape_of
from tests.unit.helpers import lens_for


@pytest.fixture(scope="module")
def bank() -> Bank:
    return load_bank()


def test_there_are_enough_questions_of_every_kind_level_and_topic(bank: Bank) -> None:
    assert len(bank) >= 60
    questions = bank.questions.values()
    assert set(Counter(question.kind for question in questions)) == set(KINDS)
    assert min(Counter(question.level for question in questions).values()) >= 15
    assert set(Counter(question.level for question in questions)) == set(LEVELS)
    assert min(Counter(question.topic for question in questions).values()) >= 5
    assert set(Counter(question.topic for question in questions)) == set(TOPICS)
    assert sum(question.kind == "predict" for question in questions) >= 3
    assert sum(question.kind == "free" for question in questions) >= 5


def test_every_option_is_explained_and_one_is_right(bank: Bank) -> None:
    for question in bank.questions.values():
        if isinstance(question, Choice):
            assert sum(option.right for option in question.options) == 1, question.id
            assert question.options[question.key].right
        if isinstance(question, (Choice, ChooseAll)):
            assert all(len(option.why) >= 10 for option in question.options), question.id
        if isinstance(question, Order):
            assert all(len(item.why) >= 10 for item in question.items), question.id
        if isinstance(question, Free):
            assert len(question.model_answer) >= 200, question.id
        assert len(question.explain) >= 40, question.id


def test_every_statement_has_a_source_that_exists(bank: Bank) -> None:
    cites = [*bank.main.cites(), *(cite for question in bank.questions.values() for cite in question.sources)]
    assert len(cites) > 200
    assert {cite.id for cite in cites} == set(bank.sources)  # none missing, none left over
    for question in bank.questions.values():
        assert question.sources
        assert question.claim is None or question.claim in CLAIMS
    assert cite_text(bank["sp-half"].sources[0], bank.sources) == "Michel, Levy and Neubig 2019, Table 4 [N]"


def test_every_claim_is_asked_about(bank: Bank) -> None:
    asked = {question.claim for question in bank.questions.values()} - {None}
    assert asked == set(CLAIMS)


def test_follow_ups_exist_and_chains_end(bank: Bank) -> None:
    for question in bank.questions.values():
        assert set(question.follow_ups) <= set(bank.questions)
        chain = bank.chain(question.id)
        assert len(chain) == len(set(chain))
    assert sum(bool(question.follow_ups) for question in bank.questions.values()) > len(bank) / 2
    assert len(bank.chain(bank.main.question)) >= 4
    reached = {name for question in bank.questions.values() for name in question.follow_ups}
    assert set(bank.roots) == set(bank.questions) - reached


def test_the_length_of_an_option_gives_nothing_away(bank: Bank) -> None:
    choices = [question for question in bank.questions.values() if isinstance(question, Choice)]
    longest = shortest = 0
    for question in choices:
        lengths = [len(option.text) for option in question.options]
        longest += lengths[question.key] == max(lengths)
        shortest += lengths[question.key] == min(lengths)
    assert longest < 0.4 * len(choices)
    assert shortest < 0.4 * len(choices)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5", "bert-mlm", "bert-bare"])
def test_every_number_can_be_computed_on_a_small_model_and_its_own_answer_is_right(bank: Bank, kind: str) -> None:
    shape = shape_of(lens_for(kind)[0])
    numbers = [question for question in bank.questions.values() if isinstance(question, Number)]
    assert len(numbers) >= 10
    for question in numbers:
        found = live_or_reference(question.quantity, shape, question.options)
        assert found.value >= 0
        assert found.sum
        text = question.ask.format_map(dict(found.shape.facts()))
        assert "{" not in text
        assert mark_number(question, repr(found.value), found).right, question.id
        assert not mark_number(question, repr(found.value * 3 + 5), found).right, question.id
        for slip in question.slips:
            if slip.quantity is not None and found.shape is GPT2_SMALL:
                assert live(slip.quantity, GPT2_SMALL).value >= 0


def test_questions_about_any_model_name_only_what_a_model_has(bank: Bank) -> None:
    facts = GPT2_SMALL.facts()
    for question in bank.questions.values():
        if isinstance(question, (Number, Predict)):
            assert "{model}" in question.ask or "{heads}" in question.ask
            question.ask.format_map(dict(facts))


def test_questions_about_the_cache_say_what_is_cached(bank: Bank) -> None:
    for question in bank.questions.values():
        if isinstance(question, Number) and question.quantity.startswith(("kv-", "tokens-like")):
            assert "{cache}" in question.ask, question.id


def test_every_quantity_is_used_by_a_question_or_the_page(bank: Bank) -> None:
    used = {question.quantity for question in bank.questions.values() if isinstance(question, Number)}
    assert set(QUANTITIES) - used == set()


def test_the_right_options_of_choose_all_vary(bank: Bank) -> None:
    shares = {len(q.keys) / len(q.options) for q in bank.questions.values() if isinstance(q, ChooseAll)}
    assert len(shares) > 2


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for path in interview_dir().glob("*.yaml"):
        shutil.copy(path, tmp_path / path.name)
    return tmp_path


BROKEN = [
    ("redundancy.yaml", "id: red-evidence", "id: red-scope", "two questions have the id red-scope"),
    ("redundancy.yaml", "[red-evidence, red-one-minute]", "[red-nowhere]", "no follow-up red-nowhere"),
    ("redundancy.yaml", "[ab-additive-why]", "[main-question]", "round in a circle"),
    ("redundancy.yaml", "claim: share-removable", "claim: moon", "no claim moon"),
    ("redundancy.yaml", "right: true", "right: false", "exactly one option must be right"),
    ("redundancy.yaml", "id: michel2019", "id: nobody1900", "source nobody1900 is not in sources.yaml"),
    ("redundancy.yaml", "grade: N", "grade: X", "grade"),
    ("cache.yaml", "quantity: kv-bytes-per-token", "quantity: kv-luck", "no quantity kv-luck"),
    ("cache.yaml", "options: {groups: 1}", "options: {grupos: 1}", "no option grupos"),
    ("cache.yaml", "kind: number", "kind: riddle", "riddle"),
    ("cache.yaml", "options: {groups: 1}", "options: {groups: 0}", "cache.yaml: kv-group: an option is not above 0"),
    ("cache.yaml", "{model} has {cache}.", "{model} has {cash}.", "cache.yaml: kv-bytes: its ask names {cash}"),
    ("cache.yaml", "{model} has {cache}.", "{model has.", "cache.yaml: kv-bytes: its ask names"),
    ("cache.yaml", "{model} has {cache}.", "{model.__class__} has.", r"kv-bytes: its ask names {model.__class__}"),
    ("cache.yaml", "{model} has {cache}.", "{model:>9999999} has.", "kv-bytes: its ask names {model}"),
    ("redundancy.yaml", "right: true", "right: false", r"redundancy.yaml: question 1 \(main-question\), choice: Value"),
    ("main.yaml", "question: main-question", "question: other", "main question other does not exist"),
    ("main.yaml", "memory_title:", "memory_titel:", "memory_tit"),
]


@pytest.mark.parametrize(("name", "old", "new", "message"), BROKEN)
def test_a_broken_bank_is_refused_with_the_place(copy: Path, name: str, old: str, new: str, message: str) -> None:
    text = (copy / name).read_text(encoding="utf-8")
    assert old in text
    (copy / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        load_bank(copy)
    assert "\n" not in str(caught.value)
    assert str(copy) in str(caught.value)


def test_files_that_are_no_yaml_or_missing_are_one_line(copy: Path) -> None:
    (copy / "speed.yaml").write_text("questions: [", encoding="utf-8")
    with pytest.raises(DataError, match="is not YAML"):
        load_bank(copy)
    (copy / "main.yaml").unlink()
    with pytest.raises(DataError, match="cannot be read"):
        load_bank(copy)


def test_what_is_no_text_is_one_line(copy: Path) -> None:
    (copy / "more.yaml").write_bytes(b"questions:\n  - {id: \xff}\n")
    with pytest.raises(DataError, match=r"more\.yaml: is not UTF-8 text"):
        load_bank(copy)
    (copy / "more.yaml").write_text("[" * 3000, encoding="utf-8")
    with pytest.raises(DataError, match=r"more\.yaml: is nested too deeply"):
        load_bank(copy)
    (copy / "more.yaml").write_text("- just\n- a list\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"more\.yaml: the whole file: ") as caught:
        load_bank(copy)
    assert "\n" not in str(caught.value)


def test_yaml_makes_no_objects(copy: Path) -> None:
    (copy / "speed.yaml").write_text("questions: !!python/object/apply:os.system ['true']", encoding="utf-8")
    with pytest.raises(DataError, match="is not YAML"):
        load_bank(copy)


def test_somebody_may_add_a_file(copy: Path) -> None:
    (copy / "more.yaml").write_text(
        "questions:\n  - {id: more-one, kind: order, topic: speed, level: 1, ask: Order these., first: small,"
        " last: big, explain: One before two before three., sources: [{id: arithmetic, grade: D}],"
        " items: [{text: one, why: is 1},"
        " {text: two, why: is 2}, {text: three, why: is 3}]}\n",
        encoding="utf-8",
    )
    assert "more-one" in load_bank(copy)
