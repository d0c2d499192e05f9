"""Criteria that choose among trained models without labels: functions of their codes of the same pictures."""
