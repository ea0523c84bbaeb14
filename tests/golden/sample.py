"""Results made by hand for the renderers: plausible, and every sum in them adds up; no solver made them."""

from __future__ import annotations

from decimal import Decimal

from solver.plan import (
    Cost,
    Inputs,
    Item,
    LimitUse,
    Placement,
    Power,
    PriceUse,
    Result,
    RunnerUp,
    Search,
    Status,
    StopReason,
    WorkloadPlan,
)

INPUTS = Inputs(problem_sha256="a" * 64, catalog_sha256="b" * 64, kitout="0.1.0", ortools="9.15.6755", seed=1)
HOURS = 730.0
MONTHS = 12.0


def money(value: float | str) -> Decimal:
    return Decimal(str(value)).quantize(Decimal("0.01"))


def _rental() -> Item:
    per_hour = 55.04
    total = money(2 * per_hour * HOURS * MONTHS)
    return Item(
        item="aws/p5.48xlarge/us-east-1",
        kind="rental",
        quantity=2,
        billing="reserved 12mo",
        site="us-east-1",
        unit_cost=total / 2,
        total_cost=total,
        accelerator="H100-SXM5-80GB",
        accelerators=16,
        provider="aws",
        hours_per_month=HOURS,
        price_per_hour="55.04",
        price_currency="USD",
        price_as_of="2026-10-02",
        price_confidence="listed",
        price_source="provider price list",
    )


def _server() -> Item:
    return Item(
        item="HGX-A100-4GPU-2U with 4 x A100-SXM4-80GB",
        kind="server",
        quantity=1,
        billing="purchase",
        site="room",
        unit_cost=money("98500"),
        total_cost=money("98500"),
        power_w=2730.0,
        accelerator="A100-SXM4-80GB",
        accelerators=4,
        price_as_of="2026-08",
        price_confidence="estimate",
        price_source="dealer quotes",
        parts=(
            "2 x EPYC 7543, 64 cores",
            "16 x 64 GiB DDR4-3200",
            "2 x NVMe 7.68 TB",
            "1 x HDR 200 Gb/s NIC",
        ),
        starred=True,
    )


def _energy() -> Item:
    return Item(
        item="electricity",
        kind="energy",
        quantity=21450,
        billing="metered",
        site="room",
        unit_cost=money("0.12"),
        total_cost=money("2574.00"),
    )


def mixed() -> Result:
    """Feasible within 0.8 %: a rented service beside a bought server, starred prices, two load periods."""
    items = (_rental(), _server(), _energy())
    rental, server, power_bill = (item.total_cost for item in items)
    total = rental + server + power_bill
    bound = float(total) / 1.008
    chat = Placement(
        offer="aws/p5.48xlarge/us-east-1",
        pool="aws/p5.48xlarge/us-east-1",
        accelerator="H100-SXM5-80GB",
        accelerators_per_replica=4,
        tp=4,
        pp=1,
        precision="fp8",
        power_limit_w=None,
        billing="reserved",
        replicas_by_period={"day": 4, "night": 1},
        rate=3.42,
        rate_unit="req/s",
        source="model",
        expected_error=0.22,
        memory_per_gpu_gib=61.3,
        memory_slack_gib=10.7,
        ttft_ms=412.0,
        tpot_ms=31.6,
        batch=48,
    )
    tune = Placement(
        offer="HGX-A100-4GPU-2U",
        pool="HGX-A100-4GPU-2U@room",
        accelerator="A100-SXM4-80GB",
        accelerators_per_replica=4,
        tp=4,
        pp=1,
        precision="bf16",
        power_limit_w=300.0,
        billing="purchase",
        replicas_by_period={"day": 1, "night": 1},
        rate=1830.0,
        rate_unit="tokens/s",
        source="published",
        expected_error=0.1,
        duration_h=7.59,
        memory_per_gpu_gib=52.0,
        memory_slack_gib=26.4,
    )
    return Result(
        problem="chat-and-tune",
        status=Status.FEASIBLE,
        stop_reason=StopReason.TIME_LIMIT,
        objective_name="cost",
        objective=float(total),
        bound=bound,
        gap=(float(total) - bound) / float(total),
        horizon_months=MONTHS,
        cost=Cost(
            total=total,
            capex=server,
            monthly=money(float(rental + power_bill) / MONTHS),
            per_hour=money(float(total) / (HOURS * MONTHS)),
            currency="USD",
            by_category={"rental": rental, "server": server, "energy": power_bill},
        ),
        power=Power(it_peak_w=2730.0, facility_peak_w=3822.0, energy_kwh=21450.0),
        items=items,
        workloads=(
            WorkloadPlan(
                name="chat",
                kind="serve",
                model="llama-3.1-70b",
                placements=(chat,),
                headroom=0.14,
                demand_by_period={"day": 12.0, "night": 3.0},
                demand_unit="req/s",
            ),
            WorkloadPlan(
                name="tune",
                kind="finetune",
                model="llama-3.1-70b",
                placements=(tune,),
                headroom=0.58,
                demand_by_period={"day": 4.0},
                demand_unit="runs/mo",
            ),
        ),
        periods={"day": 240.0, "night": 490.0},
        limits=(
            LimitUse(
                field="limits.budget.total",
                used=float(total),
                limit=1_200_000,
                slack=1_200_000 - float(total),
                unit="USD",
                binding=False,
            ),
            LimitUse(field="sites.room.power", used=3822.0, limit=3830.0, slack=8.0, unit="W", binding=True),
        ),
        runner_up=RunnerUp(
            without="H100-SXM5-80GB",
            summary="3 x 8 A100-SXM4-80GB reserved, 4 x A100 bought",
            total=money(float(total) * 1.041),
            difference=0.041,
            proved=False,
        ),
        prices=(
            PriceUse(
                item="aws/p5.48xlarge/us-east-1",
                billing="reserved",
                price="55.04",
                currency="USD",
                as_of="2026-10-02",
                age_days=59,
                confidence="listed",
                source="provider price list",
            ),
            PriceUse(
                item="HGX-A100-4GPU-2U",
                billing="purchase",
                price="98500",
                currency="USD",
                as_of="2026-08",
                age_days=121,
                confidence="estimate",
                source="dealer quotes",
            ),
        ),
        assumptions=("electricity $0.12/kWh, PUE 1.4 at room", "730 hours per month"),
        warnings=("tune: 1,024 GiB of RAM for 320 GiB of GPU memory is less than usual practice asks",),
        search=Search(
            candidates=211,
            dropped={
                "does not fit memory": 905,
                "no price": 322,
                "precision not supported": 214,
                "deployment not allowed": 120,
                "first token too late": 70,
            },
            dominated=48,
            pools=37,
            variables=412,
            constraints=188,
            wall_s=60.2,
            time_to_first_s=1.4,
        ),
        inputs=INPUTS,
    )


def cheapest() -> Result:
    """A proved least-cost plan of one offer, without own sites, limits or starred prices; money in CNY."""
    total = money(18.5 * 60 * MONTHS)
    return Result(
        problem="experiments",
        status=Status.OPTIMAL,
        stop_reason=StopReason.PROVED,
        objective_name="cost",
        objective=float(total),
        bound=float(total),
        gap=0.0,
        horizon_months=MONTHS,
        cost=Cost(
            total=total,
            capex=money(0),
            monthly=money(18.5 * 60),
            per_hour=money(float(total) / (HOURS * MONTHS)),
            currency="CNY",
            by_category={"rental": total},
        ),
        power=None,
        items=(
            Item(
                item="cloud/gpu.a10.1x/cn-north",
                kind="rental",
                quantity=1,
                billing="on_demand",
                site="cn-north",
                unit_cost=total,
                total_cost=total,
                accelerator="A10",
                accelerators=1,
                hours_per_month=60.0,
                price_per_hour="18.50",
                price_currency="CNY",
            ),
        ),
        workloads=(
            WorkloadPlan(
                name="试验",
                kind="fixed",
                placements=(
                    Placement(
                        offer="cloud/gpu.a10.1x/cn-north",
                        pool="cloud/gpu.a10.1x/cn-north",
                        accelerator="A10",
                        accelerators_per_replica=1,
                        tp=1,
                        pp=1,
                        precision="",
                        power_limit_w=None,
                        billing="on_demand",
                        replicas_by_period={"all": 1},
                        rate=0.0,
                        rate_unit="",
                        source="",
                        hours_per_month=60.0,
                    ),
                ),
                headroom=0.0,
                demand_by_period={"all": 1.0},
                demand_unit="GPU",
            ),
        ),
        periods={"all": HOURS},
        runner_up=RunnerUp(without="A10", summary="", total=None, difference=None, proved=True),
        prices=(
            PriceUse(
                item="cloud/gpu.a10.1x/cn-north",
                billing="on_demand",
                price="18.50",
                currency="CNY",
                as_of=None,
                age_days=None,
                confidence="listed",
                source="price list",
            ),
        ),
        search=Search(
            candidates=12,
            dropped={},
            dominated=3,
            pools=12,
            variables=30,
            constraints=9,
            wall_s=0.21,
            time_to_first_s=0.1,
        ),
        inputs=INPUTS,
    )


def infeasible() -> Result:
    """No plan: every candidate was dropped, and the reasons are counted."""
    return Result(
        problem="too-tight",
        status=Status.INFEASIBLE,
        stop_reason=StopReason.NO_CANDIDATES,
        objective_name="cost",
        objective=None,
        bound=None,
        gap=None,
        horizon_months=MONTHS,
        cost=None,
        power=None,
        no_plan_because=(
            "workload chat: no candidate is left; the last ones fell to 'first token too late'",
            "limits.deployment allows on_premises only",
        ),
        warnings=("prices of 3 offers are older than 120 days",),
        search=Search(
            candidates=0,
            dropped={"does not fit memory": 905, "first token too late": 12, "deployment not allowed": 1200},
            dominated=0,
            pools=0,
            variables=0,
            constraints=0,
            wall_s=0.4,
        ),
        inputs=INPUTS,
    )


def unknown() -> Result:
    """Nothing found in time."""
    return infeasible().model_copy(
        update={
            "problem": "too-hard",
            "status": Status.UNKNOWN,
            "stop_reason": StopReason.TIME_LIMIT,
            "no_plan_because": (),
        }
    )
