"""What a person may choose about a comparison, and what holds otherwise. The help of the command needs only this."""

from __future__ import annotations

from typing import Literal

Measure = Literal["pearson", "spearman", "lasso", "cosine", "both"]
Matching = Literal["one-to-many", "one-to-one"]
LEAST = 0.7071  # √½: two features share half of their variance
LEVEL = 0.05  # the expected share of false discoveries
