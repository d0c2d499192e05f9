"""Studies: what to train and measure, planned, run on one machine or a cluster, resumed, and looked at."""

from sober.workflows.plan import Plan, plan
from sober.workflows.run import run
from sober.workflows.status import Status, status
from sober.workflows.study import Product, Scale, Study, find_study, shipped

__all__ = ["Plan", "Product", "Scale", "Status", "Study", "find_study", "plan", "run", "shipped", "status"]
