"""Pieces of the Pareto front: axes, search between points, near-optimal alternatives."""
