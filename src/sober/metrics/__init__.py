"""Metrics of representations: functions of codes and factors, never of a model or a picture."""

from sober.metrics.inputs import as_codes
from sober.metrics.metric import FLAGS, Meaning, Measured, Metric, Traits
from sober.metrics.registry import METRICS, find_metric, home_of, metric_groups
from sober.metrics.score import Scores, score, score_many

__all__ = [
    "FLAGS",
    "METRICS",
    "Meaning",
    "Measured",
    "Metric",
    "Scores",
    "Traits",
    "as_codes",
    "find_metric",
    "home_of",
    "metric_groups",
    "score",
    "score_many",
]
