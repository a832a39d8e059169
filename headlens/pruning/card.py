"""The model card of a model that HeadLens wrote: what was removed, how to open it, what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

AUTO = {
    "causal-lm": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "text-classification": "AutoModelForSequenceClassification",
    "image-classification": "AutoModelForImageClassification",
    "embedding": "AutoModel",
    "audio": "AutoModelForSpeechSeq2Seq",
    "two-tower": "AutoModel",
}
"""Transformers class by task."""


def opener(model: PreTrainedModel, task: str) -> str:
    """The transformers class to open a model with: the task's, where that gives this class; else the class itself."""
    import transformers

    name = AUTO.get(task, "AutoModel")
    given = getattr(getattr(transformers, name), "_model_mapping", {}).get(type(model.config), ())
    return name if type(model) in (given if isinstance(given, tuple) else (given,)) else type(model).__name__


def card(facts: Mapping[str, Any], cls: str) -> str:
    """The text of README.md.

    Args:
        facts: what ``headlens.json`` says.
        cls: name of its transformers class.
    """
    source = facts.get("source", {})
    titles = {
        "cut": "with heads cut out",
        "masked": "with heads switched off",
        "recovered": f"{'with heads cut out, then ' if facts.get('off') else ''}trained for a short while",
    }
    title = titles.get(str(facts.get("kind")), "changed")
    parts = [
        "---\nlibrary_name: transformers\ntags:\n- headlens\n- pruning\n---",
        f"# {_plain(source.get('title') or source.get('model') or cls)}, {title}",
        _opening(facts),
        _what(facts),
        _layers(facts.get("heads")),
        _recovery(facts.get("recovery")),
        _known(facts),
        _how(facts, source),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(text: Any) -> str:
    """A name as it stands, without what Markdown or HTML would read into it."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|" else c for c in " ".join(str(text).split()))


def _opening(facts: Mapping[str, Any]) -> str:
    if facts["loads_with"] == "headlens.load":
        return (
            "## Opening it\n\n"
            '```python\nimport headlens\n\nmodel = headlens.load("path/to/this/folder")\n```\n\n'
            "`from_pretrained` alone cannot open this folder: the config of this family has no words for layers with "
            "these heads. The model that `headlens.load` gives trains, generates and saves like any other."
        )
    auto = facts["loads_with"]
    return (
        "## Opening it\n\n"
        f'```python\nfrom transformers import {auto}\n\nmodel = {auto}.from_pretrained("path/to/this/folder")\n```\n\n'
        "HeadLens is not needed for that; `headlens.load` opens it too."
    )


def _what(facts: Mapping[str, Any]) -> str:
    off = facts.get("off")
    if not off:
        return ""
    if facts.get("kind") == "masked":
        return (
            f"## What was done\n\nThe output matrices of these heads are zero: `{off}`. The shape is that of the "
            "original, so it runs wherever that runs; it is neither smaller nor faster."
        )
    text = (
        f"## What was done\n\nThese heads were taken out: `{off}`. Heads that are left keep their old names.\n\n"
        f"| | before | after |\n|---|---:|---:|\n"
        f"| parameters | {facts['parameters_before']:,} | {facts['parameters_after']:,} |\n"
    )
    if facts.get("bytes_before"):
        text += f"| bytes of the weight files | {facts['bytes_before']:,} | {facts['bytes_after']:,} |\n"
    groups = facts.get("kv_groups_kept_for_a_part") or []
    if groups:
        text += (
            f"\nOf {len(groups)} groups of query heads that share a key/value head only a part went, so their keys and "
            "values are still there and nothing is saved on them."
        )
    return text.rstrip()


def _layers(heads: Mapping[str, Any] | None) -> str:
    """Which heads each layer has."""
    if not heads:
        return ""
    rows = ["| layer | heads left | of | which |", "|---|---:|---:|---|"]
    for site, layers in heads.items():
        prefix = f"{site}." if len(heads) > 1 else ""
        for number, layer in enumerate(layers):
            which = ", ".join(f"H{head}" for head in layer["heads"]) or "none: its attention is a constant"
            rows.append(f"| {prefix}L{number} | {len(layer['heads'])} | {layer['original']} | {which} |")
    return "## Heads\n\n" + "\n".join(rows)


def _recovery(found: Mapping[str, Any] | None) -> str:
    """What a training after the cut brought."""
    if not found:
        return ""
    if not found["finished"]:
        return (
            "## Training after the cut\n\nNot finished: these are the best weights so far (step "
            f"{found['best_step']}; on watched examples {found['watched_before']:.4g} before, "
            f"{found['watched_best']:.4g} now). The command below goes on."
        )
    data = found["data"]
    lines = [
        _plain(found["sentence"]),
        f"Trained on {data['train_examples']} examples of {_plain(data['train'])}, reported on "
        f"{data['report_examples']} of {_plain(data['report'])}.",
        *(_plain(sentence) for sentence in found.get("table_sentences", [])),
    ]
    return "## Training after the cut\n\n" + "\n".join(f"- {line}" for line in lines)


def proof_sentence(facts: Mapping[str, Any]) -> str:
    """How far the model is from the one with its heads switched off; older folders lack some of the numbers."""
    largest, exact = facts.get("largest_abs_logit"), facts.get("max_abs_logit_difference_float64")
    beside = "" if largest is None else f" where the largest is {largest:.3g}"
    strict = "" if exact is None else f", and by {exact:.1g} when both are computed in float64 on the same weights"
    return (
        "On a small batch its outputs differ from those of the original with the same heads switched off by at most "
        f"{facts['max_abs_logit_difference']:.2g}{beside}{strict}: rounding."
    )


def _known(facts: Mapping[str, Any]) -> str:
    lines = [] if facts.get("max_abs_logit_difference") is None else [f"- {proof_sentence(facts)}"]
    choice = facts.get("choice") or {}
    if choice.get("method"):
        data = f" on {_plain(choice['data'])} ({choice.get('split')} part)" if choice.get("data") else ""
        lines.append(f"- The heads were chosen by the method `{choice['method']}`{data}.")
        if choice.get("no_signal"):
            lines.append(f"- That was as good as drawing them at random: {_plain(choice['no_signal'])}.")
        elif choice.get("reliability") is not None:
            lines.append(
                f"- Split-half reliability of that ranking: {choice['reliability']:.2f} (below 0.5: unstable)."
            )
    if not facts.get("recovery"):
        lines.append(
            "- How good it is at its task is not measured here: `headlens evaluate` does that on held-out data."
        )
    return "## What is known\n\n" + "\n".join(lines) if lines else ""


def _how(facts: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    lines = [f"- from: {_plain(source.get('model'))}"] if source.get("model") else []
    if source.get("fingerprint"):
        lines.append(f"- fingerprint of its weights: `{source['fingerprint']}`")
    lines.append("- versions: " + ", ".join(f"{name} {number}" for name, number in facts["versions"].items()))
    text = "## How it was made\n\n" + "\n".join(lines)
    if facts.get("command"):
        text += f"\n\n```\n{facts['command']}\n```"
    return text + "\n\nEverything here is also in `headlens.json`, with the checksums of the files."
