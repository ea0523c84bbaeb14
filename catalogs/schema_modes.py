"""Schema of deployment modes: what it means to get a machine as a VM, a container, a whole server or a service."""

from __future__ import annotations

from typing import get_args

from catalogs.columns import Sourced, at_least_zero, choice, positive, text
from problems.schema import Deployment, Isolation

DEPLOYMENTS: tuple[str, ...] = get_args(Deployment)
ISOLATIONS: tuple[str, ...] = get_args(Isolation)
"""Weakest first."""


class DeploymentModes(Sourced):
    """Properties of a deployment mode where an offer does not state its own.

    `start_h` is the typical time from order to a running node, without delivery. `isolation` says who else is on the
    machine. `billing_granularity_s` and `min_term_h` are usual for the mode (null: not billed by time); an offer's prices
    state their own. `operations_h_per_node_month` is the work that one node makes for its user.
    """

    mode = choice(DEPLOYMENTS, key=True)
    start_h = at_least_zero(nullable=False)
    isolation = choice(ISOLATIONS)
    billing_granularity_s = positive()
    min_term_h = at_least_zero(nullable=False)
    operations_h_per_node_month = at_least_zero(nullable=False)
    access = text()
    control = text()
