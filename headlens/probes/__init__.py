"""What a model can do, asked in minimal pairs, and which heads it does it with."""

from __future__ import annotations

from headlens.probes.pairs import CHANCE, Pair
from headlens.probes.probe import Prober, probe
from headlens.probes.result import ProbeResult, SkillResult
from headlens.probes.skills import SKILLS, Skill, TextSkill, find_skills, skills_for

__all__ = [
    "CHANCE",
    "SKILLS",
    "Pair",
    "ProbeResult",
    "Prober",
    "Skill",
    "SkillResult",
    "TextSkill",
    "find_skills",
    "probe",
    "skills_for",
]
