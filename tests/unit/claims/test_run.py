"""Running claims: what is kept, what is left out, and what a break leaves behind."""

from __future__ import annotations

import csv as csv_module
import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headlens.claims.base import Claim, Finding, NotMeasurable, Published
from headlens.claims.context import Context
from headlens.claims.costs import CURVE, EXAMPLE, OPERATIONS, SWEEP, passes, seconds
from headlens.claims.examples import LEAST_PICTURES, make_context, some, tokens_of
from headlens.claims.export import csv, markdown, page
from headlens.claims.registry import REGISTRY, find_claims
from headlens.claims.run import Checked, check_all, headline
from headlens.data.batch import Encoded
from headlens.errors import Cancelled, HeadlensError
from headlens.interview.claims import CLAIMS
from headlens.lens import open_model
from headlens.store import Store
from tests.unit.helpers import lens_for, open_lens, pack, random_data
from tests.unit.models.tiny import tiny


class Counting(Claim):
    """Holds, and counts how often it was asked."""

    name = "additive"
    why, rule, textbook = "Because.", "Always holds.", "fails"
    published = Published("Nothing", "nobody", "D")

    def __init__(self) -> None:
        self.asked = 0

    def check(self, context: Context) -> Finding:
        self.asked += 1
        return Finding("holds", 0.25, 0.125, float("nan"), "nats", "It <b>holds</b>.")


class Absent(Counting):
    """Cannot be measured."""

    name = "cross-most-sensitive"
    textbook = "holds"

    def check(self, context: Context) -> Finding:
        self.asked += 1
        raise NotMeasurable("there is none")


class Stopping(Counting):
    """Is cancelled in the middle."""

    name = "replicates"

    def check(self, context: Context) -> Finding:
        raise Cancelled


class Long(Counting):
    """Takes long."""

    name = "recovers"
    textbook = "holds"
    costly = True


@pytest.fixture
def context(tmp_path: Path) -> Context:
    lens, _ = lens_for("gpt2")
    return Context(lens, random_data("gpt2", seed=1), random_data("gpt2", seed=2), store=Store(tmp_path))


def test_the_registry_has_every_claim_once() -> None:
    assert sorted(claim.name for claim in REGISTRY) == sorted(CLAIMS)
    for claim in REGISTRY:
        assert claim.rule
        assert claim.why
        assert claim.published.grade in "PNAD"
        assert claim.textbook in ("holds", "fails")
    with pytest.raises(HeadlensError, match="did you mean additive"):
        find_claims(["aditive"])


def test_finished_claims_come_from_the_store(context: Context) -> None:
    claim = Counting()
    (first,) = check_all(context, [claim])
    (second,) = check_all(context, [claim])
    assert (claim.asked, first.cached, second.cached) == (1, False, True)
    assert first.finding == second.finding
    assert second.finding.high is None  # NaN is no number
    check_all(replace(context, resume=False), [claim])
    check_all(replace(context, seed=1), [claim])
    check_all(replace(context, held_out=random_data("gpt2", seed=3)), [claim])
    assert claim.asked == 4


def test_a_break_keeps_what_was_done(context: Context) -> None:
    claim, seen = Counting(), []
    with pytest.raises(Cancelled):
        check_all(context, [claim, Stopping()], on_found=seen.append)
    assert [one.claim.name for one in seen] == ["additive"]
    assert check_all(context, [claim])[0].cached


def test_what_cannot_be_measured_says_why_and_is_asked_again(context: Context) -> None:
    claim = Absent()
    found = check_all(context, [claim, claim])
    assert claim.asked == 2
    assert {one.finding.verdict for one in found} == {"not measurable"}
    assert found[0].finding.sentence == "There is none"
    assert found[0].record()["value"] is None


def test_a_model_with_one_head_a_layer_ends_no_run(context: Context) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=1, n_embd=8, n_positions=16, vocab_size=40))
    alone = replace(context, lens=open_lens(model, "causal-lm"))
    found = check_all(alone, find_claims(["single-head-layers", "methods-agree"]))
    assert [one.finding.verdict for one in found] == ["not measurable"] * 2
    assert "Every layer has a single head" in found[1].finding.sentence


def test_nothing_is_said_of_an_untrained_model() -> None:
    """All heads of it can go, which is no redundancy."""
    from headlens.lab.initial import with_random_weights

    lens = open_model("zoo-gpt2")
    blank = make_context(with_random_weights(lens, 0), "small-english", limit=4)
    found = check_all(blank, find_claims(["share-removable", "beats-chance", "additive", "methods-agree"]))
    assert {one.finding.verdict for one in found} == {"not measurable"}
    assert all("no better than guessing" in one.finding.sentence for one in found)


def test_costly_claims_wait_until_asked_for_and_are_kept(context: Context) -> None:
    claim = Long()
    (left_out,) = check_all(context, [claim])
    assert left_out.finding.verdict == "not measurable"
    assert "--only recovers" in left_out.finding.sentence
    assert claim.asked == 0
    check_all(context, [claim], costly=True)
    (kept,) = check_all(context, [claim])
    assert (kept.finding.verdict, kept.cached, claim.asked) == ("holds", True, 1)


def test_the_headline_names_what_contradicts_the_textbook(context: Context) -> None:
    found = check_all(context, [Counting(), Absent()])
    assert "Of 2 claims 1 could be measured: 1 hold, 0 fail, 0 are mixed" in headline(found)
    assert "“Single effects add up to the joint effect” holds here" in headline(found)
    assert "none contradicts" in headline(check_all(context, [Long()], costly=True))


def test_the_headline_does_not_say_of_the_model_what_the_lab_found(context: Context) -> None:
    (scratch,) = find_claims(["scratch-worse"])
    lab = Checked(scratch, Finding("fails", -0.1, -0.2, 0.0, "nats", "So it is."), 0.0)
    own = check_all(context, [Counting()])
    assert headline([lab]).endswith(
        f"The lab's own runs disagree with the textbook: “{scratch.statement[:-1]}” fails here."
    )
    assert "This model disagrees" not in headline([lab])
    both = headline([lab, *own])
    assert (
        both.index("This model disagrees")
        < both.index("add up")
        < both.index("The lab's own runs")
        < both.index("scratch")
    )


def test_exports_hold_every_claim_and_no_markup(context: Context) -> None:
    found = check_all(context, [Counting(), Absent()])
    assert "&lt;b&gt;" in page(found, "<i>m</i>")
    assert "<b>" not in page(found, "<i>m</i>")
    assert "<i>" not in page(found, "<i>m</i>")
    assert "\\<b\\>" in markdown(found, "m")
    assert markdown(found, "m").count("## ") == 2
    assert csv(found, "m").count("\n") == 3


@pytest.mark.parametrize("name", ['=HYPERLINK("x")', "+1", "-1+1", "@SUM(A1)", "\tx", "two\nlines"])
def test_a_model_may_have_any_name_in_a_table(context: Context, name: str) -> None:
    found = check_all(context, [Counting(), Absent()])
    rows = list(csv_module.DictReader(io.StringIO(csv(found, name))))
    assert [row["id"] for row in rows] == ["additive", "cross-most-sensitive"]
    for row in rows:
        assert row["model"].lstrip("'") == " ".join(name.split())
        assert not row["model"].startswith(tuple("=+-@\t"))
    assert rows[0]["value"] == "0.25"
    assert markdown(found, name).splitlines()[1] == ""


def test_shared_work_is_counted_once(context: Context) -> None:
    chosen = find_claims(["share-removable", "beats-chance"])
    assert passes(context, chosen) == passes(context, chosen[:1]) == 3 + CURVE
    both = find_claims(["methods-agree", "zero-mean-agree"])
    assert passes(context, both) == pytest.approx(3 + 2 * (1 + SWEEP * context.heads))


def test_sets_are_cut_by_tokens_but_never_to_one_example() -> None:
    data = random_data("gpt2", count=6)
    lengths = [example.length for example in data.examples]
    lens, _ = lens_for("gpt2")
    assert len(some(data, sum(lengths), lens)) == 6
    assert len(some(data, sum(lengths) - 1, lens)) == 5
    assert len(some(data, 1, lens)) == 2


def test_a_picture_counts_as_its_patches() -> None:
    lens = open_lens(tiny("vit")[0], "image-classification")
    side = lens.model.config.image_size
    picture = Encoded({"pixel_values": torch.zeros(3, side, side)}, torch.tensor([0]))
    seen: list[torch.Size] = []
    handle = lens.sites[0].layers[0].out_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape))
    with torch.no_grad():
        lens.model(pixel_values=picture.inputs["pixel_values"][None])
    handle.remove()
    assert tokens_of(picture, lens) == seen[0][1] > 2
    data = pack([picture] * 30)
    assert len(some(data, 1, lens)) == LEAST_PICTURES
    each = 2 * lens.parameters * 30 * seen[0][1] / OPERATIONS + 30 * EXAMPLE
    assert seconds(Context(lens, data, data), find_claims(["share-removable"])) == pytest.approx((3 + CURVE) * each)
