"""Rules for the price of work: tokens, training runs, tenders, upgrades, spot capacity. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import re

import polars as pl

from solver.features import compare, finance
from solver.validation.tco_rules.base import div, missing, mul
from solver.validation.tco_rules.sheet import MissingQuantityError, RuleBook, Sheet, Value, numbers, over

BOOK = RuleBook()
rule = BOOK.rule


@rule(
    "price_per_m(_tokens?)?(_(?P<what>output|input|total))?(_tokens?)?|(?P<other>output|input|total)_price_per_m",
    "serve_cost",
    "tco",
    "energy",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    what = match["what"] or match["other"]
    price = sheet.get("price_per_h", "cloud_per_h")
    if price is None:
        # An owned machine: what it costs each hour, and what running it costs.
        running = sheet.get("own_opex_per_h", default=0.0) if sheet.has("own_opex_per_h", "price_per_kwh") else 0.0
        price = over(lambda a, b: a + b, sheet.need("own_fixed_per_h"), running)
    if what == "total":
        rate = sheet.get("total_tok_s")
        if rate is None:
            rate = over(lambda a, b: a + b, sheet.need("output_tok_s"), sheet.need("input_tok_s"))
    else:
        rate = sheet.get("input_tok_s") if what == "input" else sheet.get("output_tok_s", "tok_s", "throughput_tok_s")
        if rate is None:
            return missing("tokens per second")
    use = sheet.get("utilisation", default=1.0)
    return over(lambda p, r, u: finance.cost_per_million_tokens(p, r * u), price, rate, use)


@rule("gpu_hours|gpu_h", "train_cost", "tender", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("gpus") and sheet.has("days", "hours", "months") and not sheet.has("params"):
        return mul(sheet.need("gpus"), sheet.need("hours"))
    flops = sheet.get("flops") if sheet.has("flops") else None
    if flops is not None:
        return over(lambda f, p, m: f / (p * m * 3600), flops, sheet.need("peak_flops"), sheet.need("mfu"))
    return over(
        finance.training_gpu_hours,
        sheet.need("params"),
        sheet.need("tokens"),
        sheet.need("peak_flops"),
        sheet.need("mfu"),
    )


@rule("peak_flops")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("peak_tflops"):
        return mul(sheet.need("peak_tflops"), 1e12)
    if sheet.has("dense_pflops"):
        return mul(sheet.need("dense_pflops"), 1e15)
    return missing("peak_flops")


@rule("flops|total_flops|train_flops|training_flops", "train_cost", "tender")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return mul(6.0, sheet.need("params"), sheet.need("tokens"))


@rule("cost|price|total", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return mul(sheet.need("gpu_hours"), sheet.need("price_per_gpu_h"))


@rule("(wall_|train_|training_)?(?P<unit>days|hours|months|weeks)", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = {"hours": 1.0, "days": 24.0, "weeks": 168.0, "months": 730.0}[match["unit"]]
    return over(lambda h, g: h / g / hours, sheet.need("gpu_hours"), sheet.need("gpus"))


@rule(r"\w+_hours", "tender")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """GPU-hours of the card in the name, from floating-point operations at its peak rate."""
    return over(lambda f, p: f / (p * 3600), sheet.get("flops_delivered", "flops"), sheet.need("peak_flops"))


@rule("(implied_)?mfu", "tender", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    needed = mul(6.0, sheet.need("params"), sheet.need("tokens"))
    if sheet.has("flops_delivered"):
        return div(needed, sheet.need("flops_delivered"))
    hours = sheet.get("gpu_hours") if sheet.has("gpu_hours") else mul(sheet.need("gpus"), sheet.need("hours"))
    return over(lambda f, h, p: f / (h * 3600 * p), needed, hours, sheet.need("peak_flops"))


@rule("gpus|gpus_needed|gpus_required", "tender", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = (
        sheet.need("gpu_hours")
        if sheet.has("gpu_hours") or not sheet.has("flops_delivered")
        else sheet.need("peak_hours")
    )
    hours = over(lambda h, u: h / u, hours, sheet.get("utilisation", default=1.0))
    if sheet.has("days"):
        return over(lambda h, d: h / (d * 24), hours, sheet.need("days"))
    return over(lambda h, m, pm: h / (m * pm), hours, sheet.need("months"), sheet.need("hours_per_month"))


@rule(
    r"\w+_at_(?P<price>\d+(?:_\d+)?)(?P<scale>k|m)?(_.*)?|(?:nodes|servers|gpus|units|systems)(?:_affordable|_for_budget)?",
    "tender",
    "iso_budget",
    "price_quote",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Most units for a fixed sum, at the unit price in the name or the inputs."""
    if match["price"]:
        price: Value = float(match["price"].replace("_", ".")) * {"k": 1e3, "m": 1e6, None: 1.0}[match["scale"]]
    else:
        price = sheet.get("node_price", "price_per_gpu", "price_per_unit", "unit_price")
        if price is None:
            return missing("unit price")
    return over(compare.count_within, sheet.need("budget"), price)


@rule("cost_ratio(_(?P<case>.+))?|relative_cost(_(?P<other>.+))?", "upgrade", "power_whatif", "serve_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    case = match["case"] or match["other"]
    speedup = sheet.need(f"speedup_{case}") if case else sheet.need("speedup")
    return over(compare.relative_cost, sheet.need("price_ratio"), speedup)


@rule("price_ratio", "upgrade", "price_quote")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    for name, whole in (("price_increase_percent", 100), ("price_premium_percent", 100), ("price_increase_share", 1)):
        if sheet.has(name):
            return over(lambda p, w=whole: 1 + p / w, sheet.need(name))
    new, old = sheet.get("price_new", "new_price", "new"), sheet.get("price_old", "old_price", "old")
    if new is None or old is None:
        # Two prices, the older machine or date first.
        old, new = _two_prices(sheet)
    return div(new, old) if new is not None and old is not None else missing("price_ratio")


def _two_prices(sheet: Sheet) -> tuple[Value, Value]:
    """The two sums of money of a case, in its order: the older machine or date first."""
    priced = [sheet.given[k] for k in sheet.money]
    if len(priced) == 2:
        return priced[0], priced[1]
    prices = [
        v for k, v in sheet.given.items() if re.search(r"price|per_h|cost", k) and "ratio" not in k and numbers(v)
    ]
    if len(prices) != 2:
        raise MissingQuantityError("two prices")
    return prices[0], prices[1]


@rule(
    "(?P<per>annual_|yearly_)?(price_)?(decline|fall|drop|change)(_(?P<unit>share|percent))?(_per_year)?",
    "finance",
    "price_quote",
    "upgrade",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Share by which the second of two prices lies under the first, or above it for a change; by year where asked."""
    before, after = _two_prices(sheet)
    yearly = match["per"] or match[0].endswith("_per_year")
    ratio = over(lambda a, b, y: (b / a) ** (1 / y), before, after, sheet.need("horizon_years") if yearly else 1.0)
    sign, factor = (1 if "change" in match[0] else -1), (100 if match["unit"] == "percent" else 1)
    return over(lambda r: sign * (r - 1) * factor, ratio)


@rule("(break_even|required|needed)_speedup|speedup_needed", "upgrade")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return sheet.need("price_ratio")


@rule("break_even_interruptions_per_h|break_even_rate|break_even_interruption(s|_rate)?(_per_h)?", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    overhead, gap = sheet.get("checkpoint_overhead", default=0.0), sheet.get("checkpoint_interval_h", default=1.0)
    return over(finance.spot_break_even, sheet.need("spot"), sheet.get("on_demand", "cloud_per_h"), gap, overhead)


@rule("interruptions_per_h|failures_per_h", "spot", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("mtbf_h", "mtbf_hours", "mtbf_days"):
        return div(1, sheet.get("mtbf_h", "mtbf_hours"))
    return div(sheet.get("interruptions", "failures"), sheet.need("hours"))


@rule("mtbf_h|mtbf_hours|mtbf|hours_between_(interruptions|failures)", "spot", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return div(1, sheet.need("interruptions_per_h"))


@rule("(optimal|best|young)_(checkpoint_)?interval_h|checkpoint_interval_h", "spot", "train_cost", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    written = sheet.get("checkpoint_h", "write_h")
    return over(finance.checkpoint_interval_h, written, sheet.need("interruptions_per_h"))


@rule("spot_multiplier|multiplier|time_multiplier", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if not sheet.has("checkpoint_interval_h", "checkpoint_interval_min", "checkpoint_interval_s"):
        length = sheet.get("job_h", "job_hours")
        if length is None:
            return missing("checkpoint interval")
        billed = over(finance.restarted_hours, sheet.need("interruptions_per_h"), length)
        return over(lambda b, j: None if b is None else b / j, billed, length)
    gap = sheet.need("checkpoint_interval_h")
    return over(
        finance.spot_multiplier, sheet.need("interruptions_per_h"), gap, sheet.get("checkpoint_overhead", default=0.0)
    )


@rule("effective_(price|cost)?(_?per_h)?|spot_effective(_per_h)?|effective_spot(_per_h)?", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda s, m: None if m is None else s * m, sheet.need("spot"), sheet.need("spot_multiplier"))


@rule("billed_(h|hours)", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(
        lambda j, m: None if m is None else j * m,
        sheet.get("job_h", "job_hours", "hours"),
        sheet.need("spot_multiplier"),
    )


@rule("(spot_)?saving_(?P<unit>share|percent)|discount_(?P<other>share|percent)", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    factor = 100 if "percent" in match[0] else 1
    price = sheet.get("spot_effective", default=sheet.need("spot")) if "saving" in match[0] else sheet.need("spot")
    return over(lambda s, o: (1 - s / o) * factor, price, sheet.get("on_demand", "cloud_per_h"))


@rule("price|total|capex", "price_quote")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = (
        sheet.get("price_per_gpu", "quotes", "quotes_per_gpu")
        if sheet.has("price_per_gpu", "quotes", "quotes_per_gpu")
        else None
    )
    if each is None:
        return missing("prices")
    return mul(each, sheet.need("gpus"))


@rule("scores?|weighted_scores?|total_scores?", "tender")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    weights, bids = sheet.need("weights"), sheet.given.get("bids") or sheet.given.get("offers")
    marks = sheet.given.get("marks") or sheet.given.get("scores") or sheet.given.get("points")
    if isinstance(weights, dict) and isinstance(marks, dict):
        if numbers(list(marks.values())):
            return compare.weighted_mean(marks, weights)
        return {name: compare.weighted_mean(values, weights) for name, values in marks.items()}
    if not isinstance(weights, dict) or not isinstance(bids, dict):
        return missing("weights and bids")

    frame = pl.DataFrame([{"bid": name, **values} for name, values in bids.items()])
    lower = {c for c in weights if re.search(r"price|cost|tco|power|watt|energy|time", c)}
    scored = compare.tender_scores(frame, weights, lower)
    found = dict(zip(scored["bid"].to_list(), scored["score"].to_list(), strict=True))
    return {name: found[name] for name in bids}


COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@rule(
    r"price_per_(?P<n>\d*)(?P<scale>[kmbt]?)_?(?P<what>tokens?|requests?|images?|samples?)",
    "serve_cost",
    "train_cost",
    "tco",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Price of so many tokens or requests: of a whole run, or at a rate."""
    count = float(match["n"] or 1) * COUNTS[match["scale"]]
    what = match["what"].rstrip("s")
    if sheet.has(f"{what}s") and sheet.has("gpu_hours", "total", "cost"):
        return over(lambda c, n: c / n * count, sheet.get("cost", "total"), sheet.need(f"{what}s"))
    rate = sheet.get(f"{what}s_per_s", *(("tok_s", "output_tok_s") if what == "token" else ("req_s", f"{what}_s")))
    if rate is None:
        return missing(f"{what}s per second")
    price = sheet.get("price_per_h", "cloud_per_h")
    return over(lambda p, r: finance.cost_per_million_tokens(p, r) * count / 1e6, price, rate)
