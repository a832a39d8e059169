"""Which models a report is about: what folders say of where they come from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headlens.errors import HeadlensError, ModelError
from headlens.heads import HeadSet
from headlens.lens import Lens
from headlens.models.loading import load
from headlens.pruning.names import found_from
from headlens.report.models import Subjects, names_for, open_subjects
from tests.unit.pruning import recovery_toys as toys


def opener(name: str) -> Lens:
    return Lens(load(name))


def test_one_folder_names_the_others(full: Path, cut: Path, recovered: Path) -> None:
    a, b, c = str(full), str(cut), str(recovered)
    assert names_for(a) == (a, None, None)
    assert names_for(b) == (a, b, None)
    assert names_for(c) == (a, b, c)
    assert names_for(a, b) == (a, b, None)
    assert names_for(a, c) == (a, b, c)
    assert names_for(a, b, c) == (a, b, c)
    assert names_for("smollm2-135m") == ("smollm2-135m", None, None)
    assert names_for("x" * 5000) == ("x" * 5000, None, None)


def test_a_folder_that_lost_its_origin_is_told(cut: Path, recovered: Path, tmp_path: Path) -> None:
    for source, missing in ((cut, "source"), (recovered, "recovered_from")):
        copy = tmp_path / source.name
        shutil.copytree(source, copy)
        facts = json.loads((copy / "headlens.json").read_text())
        del facts[missing]
        (copy / "headlens.json").write_text(json.dumps(facts))
        with pytest.raises(ModelError, match="give the full model"):
            names_for(str(copy))


def test_a_cut_that_transformers_alone_saved_again_is_no_full_model(cut: Path, tmp_path: Path) -> None:
    """Its config still names the heads, and nothing what it was cut from: a report would say that none went."""
    shutil.copytree(cut, tmp_path / "copy")
    (tmp_path / "copy" / "headlens.json").unlink()
    with pytest.raises(ModelError, match="does not say what it was cut from; give the full model first"):
        open_subjects(names_for(str(tmp_path / "copy")), opener)
    assert open_subjects((str(cut), None, str(cut)), opener).off == HeadSet()  # a second cut is told from the first


def test_what_went_is_counted_from_the_full_model(subjects: Subjects) -> None:
    assert [one.role for one in subjects.all] == ["full", "cut", "cut + recovered"]
    assert [one.heads for one in subjects.all] == [8, 2, 2]
    assert subjects.full.lens.topology.format(subjects.off) == toys.OFF
    assert subjects.changed is subjects.recovered


def test_models_that_do_not_belong_together_are_told(full: Path, cut: Path, recovered: Path, tmp_path: Path) -> None:
    other = toys.cut_of(full, tmp_path / "other", "L0H0")
    with pytest.raises(ModelError, match="has other heads than"):
        open_subjects((str(full), str(other), str(recovered)), opener)
    from tests.small_models import save_llama

    stranger = save_llama(tmp_path / "llama")
    with pytest.raises(ModelError, match="is not a cut of"):
        open_subjects((str(stranger), str(cut), None), opener)
    from headlens.pruning.cut import mask
    from headlens.pruning.saved import save_cut, source_of

    lens = opener(str(full))
    save_cut(mask(lens, lens.topology.parse("L0H0")), tmp_path / "masked", source=source_of(lens))
    with pytest.raises(HeadlensError, match="masked, not cut"):
        open_subjects((str(full), str(tmp_path / "masked"), None), opener)


def test_no_file_of_a_folder_tells_a_path(full: Path, cut: Path, recovered: Path) -> None:
    for folder in (cut, recovered):
        for name in ("headlens.json", "README.md", "config.json"):
            assert str(full.parent) not in (folder / name).read_text(encoding="utf-8"), name
    facts = json.loads((recovered / "headlens.json").read_text(encoding="utf-8"))
    assert found_from(recovered, facts["source"]["model"]) == str(full.resolve())
    assert found_from(recovered, facts["recovered_from"]) == str(cut.resolve())
