"""From users to load: requests per second, tokens per second and requests in flight, with every step shown."""

from __future__ import annotations

from dataclasses import dataclass

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Step:
    """One step of the reckoning: what it gives, the formula with its figures, the value and its unit."""

    what: str
    formula: str
    value: float
    unit: str


def users_to_load(
    users: float,
    active_share: float,
    requests_per_active_user_h: float,
    isl: float,
    osl: float,
    *,
    latency_s: float | None = None,
    peak_factor: float = 1.0,
) -> tuple[Step, ...]:
    """Reckon the load of a service from its users.

    Parameters
    ----------
    users
        People who may use the service.
    active_share
        Share of them active in the busiest hour [0..1].
    requests_per_active_user_h
        Requests that an active one sends [1/h].
    isl, osl
        Mean input and output length of a request [tokens].
    latency_s
        Mean time a request takes [s]; with it, Little's law gives the requests in flight.
    peak_factor
        Rate in the busiest minutes over the mean of the busiest hour.

    Returns
    -------
    tuple[Step, ...]
        Active users, requests/s, input and output tokens/s, and requests in flight where `latency_s` is given.

    Raises
    ------
    ValueError
        A figure is negative, or the share above 1; names it.
    """
    given = {
        "users": users,
        "active_share": active_share,
        "requests_per_active_user_h": requests_per_active_user_h,
        "isl": isl,
        "osl": osl,
        "peak_factor": peak_factor,
    }
    for name, value in given.items():
        if not value >= 0:
            raise ValueError(f"{name} must be zero or more, not {value}")
    if active_share > 1:
        raise ValueError(f"active_share is a fraction of 1, not {active_share}")
    if latency_s is not None and not latency_s > 0:
        raise ValueError(f"latency_s must be above zero, not {latency_s}")
    active = users * active_share
    rate = active * requests_per_active_user_h / SECONDS_PER_HOUR * peak_factor
    steps = [
        Step("active users", f"{users:g} users x {active_share:g}", active, "users"),
        Step(
            "request rate",
            f"{active:g} x {requests_per_active_user_h:g}/h / 3600 s/h x peak factor {peak_factor:g}",
            rate,
            "requests/s",
        ),
        Step("input tokens", f"{rate:g} requests/s x {isl:g} tokens", rate * isl, "tokens/s"),
        Step("output tokens", f"{rate:g} requests/s x {osl:g} tokens", rate * osl, "tokens/s"),
    ]
    if latency_s is not None:
        in_flight = rate * latency_s
        steps.append(
            Step("requests in flight", f"{rate:g} requests/s x {latency_s:g} s (Little's law)", in_flight, "requests")
        )
    return tuple(steps)
