"""Metrics of representations: functions of codes and factors, never of a model or a picture."""

from sober.metrics.metric import FLAGS, Meaning, Measured, Metric
from sober.metrics.registry import METRICS
from sober.metrics.score import Scores, as_codes, score, score_many

__all__ = ["FLAGS", "METRICS", "Meaning", "Measured", "Metric", "Scores", "as_codes", "score", "score_many"]
