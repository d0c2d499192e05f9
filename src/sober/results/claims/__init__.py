"""Thirty claims of the five papers, and the functions that decide them from results."""

from sober.results.claims.claim import Claim, Condition, Decision, Verdict, in_words
from sober.results.claims.registry import CLAIMS, SETS, ModelSet, paper_of, waits_for

__all__ = [
    "CLAIMS",
    "SETS",
    "Claim",
    "Condition",
    "Decision",
    "ModelSet",
    "Verdict",
    "in_words",
    "paper_of",
    "waits_for",
]
