"""Studies: what to train and measure, planned, run on one machine or a cluster, resumed, and looked at."""

from sober.study.plan import Plan, plan
from sober.study.run import run
from sober.study.status import Status, status
from sober.study.study import Product, Scale, Study, find_study, shipped

__all__ = ["Plan", "Product", "Scale", "Status", "Study", "find_study", "plan", "run", "shipped", "status"]
