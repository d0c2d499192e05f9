"""Choosing among trained models without labels: criteria, one file each, and the ranking they give."""

from sober.contracts import Cost
from sober.criteria.criterion import Criterion, Evidence, Judgement, fit_to_judge
from sober.criteria.ranking import RankedModel, RankedSetting, Ranking
from sober.criteria.registry import CRITERIA, find_criterion

__all__ = [
    "CRITERIA",
    "Cost",
    "Criterion",
    "Evidence",
    "Judgement",
    "RankedModel",
    "RankedSetting",
    "Ranking",
    "find_criterion",
    "fit_to_judge",
]
