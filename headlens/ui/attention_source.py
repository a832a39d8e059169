"""What the attention page looks at: the prompt, with the tokens that the model writes on, or a picture."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.errors import DataError
from headlens.ui import background, state
from headlens.ui.attention_picture import PictureInput, picture_input
from headlens.ui.components.attention_view.payload import patch_tokens
from headlens.ui.prompt import Reading, prompt_box, read_prompt, text_of

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.attention import Patterns
    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.tokens import TokenLabel
    from headlens.ui.jobs import Job

WRITTEN = (0, 8, 16, 32)
"""How many tokens the model may be asked to write."""


@dataclass(frozen=True)
class Source:
    """One input of the model.

    Attributes:
        inputs: what the model gets, each ``[1, ...]``.
        key: what it is, for caches.
        notes: sentences about what was left out or added.
        written: position of the first token that the model wrote itself, by side (``input`` or ``target``).
        picture: for models that see.
    """

    inputs: Mapping[str, Tensor]
    key: Hashable
    notes: tuple[str, ...] = ()
    written: Mapping[str, int] = field(default_factory=dict)
    picture: PictureInput | None = None

    def labels(self, lens: Lens, site: str, found: Patterns) -> tuple[list[TokenLabel], list[TokenLabel]]:
        """Token labels of queries and keys."""
        if self.picture is not None:
            size = found.pattern[site].shape[-1]
            rows, columns = self.picture.rows, self.picture.columns
            extra = [f"[extra {i}]" for i in range(1, size - rows * columns)]
            labels = patch_tokens(rows, columns, ("[CLS]", *extra) if size > rows * columns else ())
            return labels, labels
        sides = {"enc": ("input", "input"), "dec": ("target", "target"), "cross": ("target", "input")}
        query, key = sides.get(site, ("input", "input"))
        return self._text(lens, found.query_ids[site], query), self._text(lens, found.key_ids[site], key)

    def _text(self, lens: Lens, ids: list[int], side: str) -> list[TokenLabel]:
        from headlens.next_tokens import token_labels

        start = self.written.get(side, len(ids))
        return [
            label
            if place < start
            else replace(label, note=" · ".join(filter(None, (label.note, "written by the model"))))
            for place, label in enumerate(token_labels(lens, ids))
        ]


def choose_source(lens: Lens, off: HeadSet) -> Source:
    """Draws the fields and reads them.

    Raises:
        DataError: nothing usable was given; a line for the page.
    """
    if lens.task == "image-classification":
        picture = picture_input(lens)
        return Source({"pixel_values": picture.pixels}, picture.digest, picture=picture)
    if lens.tokenizer is None or lens.task in ("audio", "two-tower"):
        raise DataError(f"{lens.title} ({lens.task}): this page has no input for such models; use the Python API")
    prompt, target = prompt_box(lens, need_target=True)
    count = _written_field(lens)
    reading = read_prompt(lens, prompt, target if lens.task == "seq2seq" else None, room=count)
    notes = (reading.note,) if reading.note else ()
    key = (tuple(reading.ids), tuple(reading.target or ()))
    plain = Source(reading.inputs(lens), key, notes)
    if not count:
        background.leave("attention_write")
        return plain
    job_key = ("attention_write", lens.fingerprint, tuple(reading.ids), lens.topology.format(off), count)
    background.follow("attention_write", job_key, "Writing on", _write(lens, reading, prompt, off, count))
    job = background.job_of("attention_write")
    if job is None or job.status != "done":
        return plain
    return _with_written(lens, reading, job.result, notes)


def writing_progress(polling: bool) -> None:
    """Progress of the writing; call in a fragment that polls while it runs."""
    job = background.job_of("attention_write")
    if job is not None:
        background.finished("attention_write", job.key)
    if polling != background.busy("attention_write") and not state.is_whole_page():
        state.rerun()


def _written_field(lens: Lens) -> int:
    if lens.task not in ("causal-lm", "seq2seq"):
        return 0
    current = state.remember("written", 0)
    state.fill("_written", current if current in WRITTEN else 0)
    st.segmented_control(
        "Let the model write the target" if lens.task == "seq2seq" else "Let the model write on",
        WRITTEN,
        format_func=lambda count: f"{count} tokens" if count else "no",
        key="_written",
        required=True,
        help="The most probable token at each step; heads that are off stay off. Then you see where it looked.",
        on_change=lambda: st.session_state.update(hl_written=st.session_state["_written"] or 0),
    )
    return int(st.session_state["hl_written"])


def _write(lens: Lens, reading: Reading, prompt: str, off: HeadSet, count: int) -> Any:
    def work(job: Job) -> tuple[list[int], list[int]]:
        from headlens.generation import Writer
        from headlens.next_tokens import edits_of
        from headlens.run import Run

        text = text_of(lens, reading.ids) if reading.note else prompt
        writer = Writer(lens, text, count, 0, 0.0)
        found = writer.write(Run(edits=edits_of(lens, off)), lambda done: job.progress(done, count))
        return writer.start, found.ids

    return work


def _with_written(lens: Lens, reading: Reading, result: tuple[list[int], list[int]], notes: tuple[str, ...]) -> Source:
    start, new = result
    ids = [*start, *new]
    if lens.task == "seq2seq":
        both, side = Reading(reading.ids, ids, ""), "target"
    else:
        both, side = Reading(ids, None, ""), "input"
    note = f"The model wrote the last {len(new)} tokens: “{text_of(lens, ids)[len(text_of(lens, start)) :]}”"
    key = (tuple(both.ids), tuple(both.target or ()))
    return Source(both.inputs(lens), key, (*notes, note), {side: len(start)})
