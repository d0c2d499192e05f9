"""Choosing among trained models without labels: criteria, one file each, and the ranking they amount to."""

from sober.criteria.criterion import Criterion, Evidence, Judgement
from sober.criteria.ranking import RankedModel, RankedSetting, Ranking, rank
from sober.criteria.registry import CRITERIA, find_criterion

__all__ = [
    "CRITERIA",
    "Criterion",
    "Evidence",
    "Judgement",
    "RankedModel",
    "RankedSetting",
    "Ranking",
    "find_criterion",
    "rank",
]
