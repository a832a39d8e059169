"""The cut on a page: heads out of the weights into a folder, its proof, and what can be taken home."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.models.folders import SIDECAR
from headlens.pruning.card import proof_sentence
from headlens.pruning.names import spoken
from headlens.ui import background, cache, inputs, state, words
from headlens.ui.jobs import Job

if TYPE_CHECKING:
    from headlens.heads import HeadSet
    from headlens.pruning.points import Curve
    from headlens.ui.choices import Chosen
    from headlens.ui.prune_budget import Choice

KEPT_FOLDERS = 12
"""Cut models that are kept in the cache folder; the oldest ones go."""
ZIP_LIMIT = 2 * 2**30


@dataclass(frozen=True)
class Made:
    """A model that was cut on this page.

    Attributes:
        folder: where it is; a MODEL for everything else.
        off: what was taken out.
        facts: what ``headlens.json`` says.
        removed: how many heads.
    """

    folder: Path
    off: HeadSet
    facts: dict[str, Any]
    removed: int


def section(chosen: Chosen, choice: Choice) -> Made | None:
    """Draws the button, the work and the proof; the cut model once it is there."""
    lens, off = chosen.lens, choice.off
    total = len(lens.topology.heads())
    text = lens.topology.format(off)
    key = ("cut", lens.fingerprint, text, choice.origin)
    if not len(off) and not st.session_state.get("hl_cut_key"):
        st.caption("No heads are chosen yet.")
        return None
    if len(off):
        st.markdown(f"**{len(off)} of {total} heads** are chosen: `{words.shortened(text, 120)}`")
    if len(off) == total:
        st.warning("Every head is chosen; leave at least one.", icon=":material/info:")
    elif len(off) and not background.is_shown("cut", key):
        st.button(
            f"Cut these {len(off)} heads out",
            key="cut_start",
            type="primary",
            icon=":material/content_cut:",
            on_click=_start,
            args=(chosen, choice, key),
        )
    shown = st.session_state.get("hl_cut_key")
    if shown is None or shown[1] != lens.fingerprint:
        return None
    job = background.finished("cut", shown)
    if job is None:
        return None
    made: Made = job.result
    if not made.folder.is_dir():
        st.warning("The folder of this cut is gone from the cache; cut once more.", icon=":material/info:")
        cache.jobs().drop(shown)
        return None
    _proof(made, total)
    return made


def _start(chosen: Chosen, choice: Choice, key: Any) -> None:
    st.session_state["hl_cut_key"] = key
    background.start("cut", key, f"Cutting {len(choice.off)} heads out", _work(chosen, choice))


def _work(chosen: Chosen, choice: Choice) -> Any:
    def work(job: Job) -> Made:
        from headlens.pruning.cut import cut
        from headlens.pruning.saved import bytes_before, save_cut, source_of

        lens, off = chosen.lens, choice.off
        job.progress(0, 2)
        result = cut(lens, off)
        job.progress(1, 2)
        folder = folder_for(lens.name, lens.fingerprint, f"{result.removed}|{choice.origin}")
        saved = save_cut(
            result,
            folder,
            source=source_of(lens),
            choice=choice.facts,
            size_before=bytes_before(lens),
            command=shlex.join(["headlens", "prune", spoken(lens.name), "--off", result.removed, "--out", folder.name]),
        )
        return Made(folder, off, dict(saved.facts), len(off))

    return work


def cuts_dir() -> Path:
    """Where cut models of the app are; the oldest beyond ``KEPT_FOLDERS`` are removed."""
    from headlens.paths import cache_dir

    folder = cache_dir() / "cuts"
    folder.mkdir(parents=True, exist_ok=True)
    kept = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for old in kept[: -(KEPT_FOLDERS - 1)]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def folder_for(name: str, fingerprint: str, what: str) -> Path:
    """A folder whose name says which model it comes from; the same cut has the same one."""
    short = "".join(c if c.isalnum() or c in "-_." else "-" for c in Path(name).name)[:40].strip(".-") or "model"
    digest = hashlib.sha256(f"{fingerprint}|{what}".encode()).hexdigest()[:10]
    return cuts_dir() / f"{short}-cut-{digest}"


def _proof(made: Made, total: int) -> None:
    facts = made.facts
    before, after = facts["parameters_before"], facts["parameters_after"]
    columns = st.columns(3)
    columns[0].metric("Heads", f"{total - made.removed}", f"-{made.removed} of {total}", delta_color="off")
    columns[1].metric("Parameters", f"{after:,}", f"{100 * (after - before) / before:+.1f} %", delta_color="off")
    sizes = facts["bytes_before"], facts["bytes_after"]
    change = f"{100 * (sizes[1] - sizes[0]) / sizes[0]:+.1f} %" if sizes[0] else None
    columns[2].metric("Weight files", f"{sizes[1] / 1e6:,.1f} MB", change, delta_color="off")
    st.markdown(proof_sentence(facts))
    if groups := facts["kv_groups_kept_for_a_part"]:
        st.caption(
            f"{len(groups)} KV groups lose only some of their query heads; their keys and values had to stay, so "
            "nothing is saved there. Choose key/value groups in the sidebar to take out whole ones."
        )
    opens = facts["loads_with"]
    st.caption(
        f"Opens with `{opens}.from_pretrained(folder)`."
        if opens != "headlens.load"
        else "Opens with `headlens.load(folder)`: its class has no config for layers that differ."
    )
    st.button(
        "Look at the cut model",
        key="cut_open",
        icon=":material/open_in_new:",
        help="Makes it the model of every page.",
        on_click=open_folder,
        args=(made.folder,),
    )


def open_folder(folder: Path) -> None:
    """Makes a cut model the chosen one."""
    state.put("model", str(folder))
    state.put("data", "")
    state.forget_switches()
    state.publish_url()


def downloads(chosen: Chosen, made: Made | None, found: Curve | None) -> None:
    """What can be taken home: the folder, scores, the curve, figures."""
    inputs.choice("The camera button of the figures saves", "image_format", {"svg": "SVG", "png": "PNG"})
    name = Path(chosen.lens.name).name
    with st.container(horizontal=True):
        if found is not None:
            scores, points = found.scores.to_frame(), found.to_frame()
            _download("Scores (CSV)", scores.to_csv(index=False), f"{name}-scores.csv", "text/csv")
            _download("Scores (Parquet)", lambda: scores.to_parquet(index=False), f"{name}-scores.parquet")
            _download("Curve (CSV)", points.to_csv(index=False), f"{name}-curve.csv", "text/csv")
        if made is not None:
            _download_folder("Cut model", made.folder)
            recovered = recovered_folder(made)
            if (recovered / SIDECAR).is_file():
                _download_folder("Recovered model", recovered)
    if found is None and made is None:
        st.caption("Scores and curve can be saved once the curve is drawn, the smaller model once it is cut.")


def recovered_folder(made: Made) -> Path:
    """Where the recovered model goes, and the best so far."""
    return made.folder.with_name(f"{made.folder.name}-recovered")


def _download_folder(label: str, folder: Path) -> None:
    """A folder as a ZIP; one that is too big for a browser is taken by the command line."""
    size = _size(folder)
    if size > ZIP_LIMIT:
        st.caption(f"{label}: {size / 1e9:.1f} GB are too much for a download; `headlens prune` writes it to a disk.")
        return
    _download(f"{label} (ZIP, {size / 1e6:,.1f} MB)", lambda: zipped(folder), f"{folder.name}.zip", "application/zip")


def _download(label: str, data: Any, name: str, mime: str = "application/octet-stream") -> None:
    st.download_button(label, data, name, mime, key=f"save_{name}", on_click="ignore", icon=":material/download:")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def zipped(folder: Path) -> bytes:
    """The folder as a ZIP; weights do not compress, so it only packs."""
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                archive.write(path, f"{folder.name}/{path.name}")
    return buffer.getvalue()
