"""The one spelling of a figure's name in a published case: words, currency and scale, known synonyms, units."""

from __future__ import annotations

import re
from dataclasses import dataclass

# fmt: off
CURRENCIES = {
    "usd": "USD", "dollar": "USD", "dollars": "USD", "eur": "EUR", "euro": "EUR", "gbp": "GBP", "cny": "CNY",
    "rmb": "CNY", "yuan": "CNY", "jpy": "JPY", "yen": "JPY", "hkd": "HKD", "sgd": "SGD",
}
SCALES = {"k": 1e3, "m": 1e6, "wan": 1e4, "": 1.0}
TOKENS = {
    "hour": "h", "hr": "h", "hourly": "per_h", "mo": "month", "yr": "year", "yearly": "annual", "kilowatt": "kw",
    "watt": "w", "watts": "w", "utilization": "utilisation", "utilised": "used", "accelerator": "gpu",
    "accelerators": "gpus", "cards": "gpus", "pct": "percent", "breakeven": "break_even", "switchport": "switch_port",
    "avg": "mean", "leaves": "leaf", "leafs": "leaf", "spines": "spine", "cores": "core", "rental": "cloud",
    "rent": "cloud", "rented": "cloud", "owned": "own", "buy": "own", "onprem": "own", "purchase": "capex",
    "seconds": "s", "minutes": "min", "gbps": "gbit_s", "tokens_per_s": "tok_s",
}
# Whole names, after their words are replaced.
NAMES = {
    "capex": ("server", "server_price", "capex_price", "server_cost", "hardware", "hardware_cost", "capital", "capital_cost",
              "investment", "initial_cost", "upfront_capex", "system_price", "node_capex", "own_capex", "capex_total",
              "total_capex", "hardware_capex", "list_price"),
    "own_opex_per_h": ("opex_per_h", "own_per_h", "running_cost_per_h", "own_running_per_h", "operating_per_h",
                       "own_running_cost_per_h", "own_cost_per_h", "operating_cost_per_h", "own_variable_per_h"),
    "own_opex_per_month": ("opex_per_month", "own_per_month", "opex_month", "own_opex_month", "running_cost_per_month",
                           "own_monthly", "opex_monthly"),
    "own_opex_per_year": ("opex_per_year", "own_per_year", "annual_opex", "opex_annual", "own_opex_annual", "opex_year",
                          "running_cost_per_year", "own_annual"),
    "cloud_per_h": ("cloud_rate_per_h", "cloud_price_per_h", "cloud_cost_per_h", "on_demand_per_h", "instance_per_h",
                    "cloud_rate", "price_per_node_h", "node_per_h", "reserved_per_h", "per_h_cloud", "cloud_node_per_h"),
    "price_per_gpu_h": ("cloud_per_gpu_h", "per_gpu_h", "gpu_per_h", "price_per_h_gpu", "rate_per_gpu_h", "gpu_h_price",
                        "cloud_price_per_gpu_h", "price_gpu_h", "per_gpu_per_h", "cloud_per_gpu_per_h",
                        "price_per_gpu_per_h", "gpu_price_per_h"),
    "price_per_kwh": ("electricity_per_kwh", "energy_per_kwh", "electricity_price", "electricity", "per_kwh", "tariff",
                      "power_per_kwh", "energy_price_per_kwh", "price_kwh", "tariff_per_kwh", "electricity_price_per_kwh"),
    "price_per_gpu": ("gpu_price", "gpu_cost", "per_gpu", "capex_per_gpu", "cost_per_gpu", "gpu_capex", "gpu"),
    "node_price": ("price_per_node", "node", "node_cost", "server_each", "per_node", "price_per_server"),
    "nodes": ("servers", "node_count", "gpu_nodes", "dgx", "compute_nodes"),
    "gpus": ("gpu_count", "n_gpus", "total_gpus", "num_gpus"),
    "gpus_per_node": ("gpus_per_server", "gpus_per_system", "gpu_per_node"),
    "nics_per_node": ("ports_per_node", "nic_per_node", "rails", "links_per_node", "node_ports"),
    "switch_ports": ("radix", "ports_per_switch", "switch_radix", "ports_switch"),
    "gpu_kw": ("kw_per_gpu", "gpu_power_kw"),
    "it_kw": ("power_kw", "draw_kw", "rig_kw", "load_kw", "machine_kw", "box_kw", "total_kw", "it_power_kw"),
    "it_w": ("power_w", "draw_w", "rig_w", "load_w", "machine_w", "box_w", "total_w"),
    "relative_throughput": ("throughput_kept", "throughput_share", "relative_speed", "throughput_ratio", "speed_kept"),
    "gpu_w": ("gpu_power_w", "w_per_gpu", "gpu_tdp_w", "tdp_w", "watts_per_gpu", "card_w"),
    "node_kw": ("kw_per_node", "kw_per_system", "server_kw", "node_power_kw", "system_kw", "kw_per_server"),
    "node_ru": ("node_units", "ru_per_node", "u_per_node", "node_u", "server_ru", "server_u"),
    "rack_units": ("rack_u", "rack_ru", "ru"),
    "host_w": ("host_overhead_w", "overhead_w", "other_w", "server_overhead_w", "host_and_network_w"),
    "residual": ("residual_value", "salvage", "resale", "salvage_value", "resale_value"),
    "horizon_years": ("years", "term_years", "life_years", "lifetime_years", "useful_life_years", "period_years", "age_years"),
    "months": ("term_months", "horizon_months", "contract_months", "duration_months"),
    "hours_per_month": ("h_per_month", "month_h", "month_hours"),
    "hours_per_day": ("h_per_day", "duty_hours_per_day", "daily_hours", "use_hours_per_day"),
    "hours_per_year": ("h_per_year", "annual_hours"),
    "utilisation": ("use", "duty", "load_factor", "use_share", "util", "mean_utilisation", "load"),
    "monthly": ("monthly_cost", "total_month", "total_monthly", "cost_per_month", "monthly_total", "price_per_month", "per_month"),
    "annual": ("annual_cost", "per_year", "price_per_year", "cost_per_year", "total_annual", "annual_total", "year"),
    "total": ("total_cost", "cost_total", "tco", "tco_total", "grand_total", "total_capital_cost", "total_price"),
    "break_even_hours": ("break_even_h", "payback_h", "payback_hours"),
    "break_even_months": ("payback_months", "break_even_month", "payback_month"),
    "break_even_years": ("payback_years", "break_even_year", "payback"),
    "break_even_days": ("payback_days",),
    "break_even_utilisation": ("break_even_use", "utilisation_break_even", "break_even_utilisation_share",
                               "break_even_share"),
    "max_fill": ("fill", "fill_share", "max_utilisation", "fill_limit", "fill_rule"),
    "needed_tb": ("usable_needed_tb", "required_tb", "need_tb", "data_tb", "usable_tb_needed", "dataset_tb"),
    "discount_rate": ("interest", "interest_rate", "rate", "wacc", "yearly_rate", "annual_rate", "financing_rate", "apr", "interest_rate_per_year"),
    "discount_rate_percent": ("rate_percent", "interest_percent", "apr_percent", "wacc_percent", "interest_rate_percent"),
    "storage_month": ("storage_per_month", "storage_monthly"),
    "leaf": ("leaf_switches", "n_leaf"),
    "spine": ("spine_switches", "n_spine"),
    "core": ("core_switches", "super_spine", "n_core"),
    "switches": ("switch_count", "total_switches", "switches_total", "n_switches"),
    "cables_node_leaf": ("cables_host_leaf", "cables_node_and_ufm", "cables_compute_ufm", "cables_compute_and_ufm", "node_leaf_cables", "cables_compute_leaf", "node_cables"),
    "cables_leaf_spine": ("leaf_spine_cables",),
    "cables_spine_core": ("spine_core_cables",),
    "optics": ("transceivers", "transceiver_count"),
    "params": ("parameters", "n_params", "model_params"),
    "dense_pflops": ("dense_fp16_pflops", "dense_bf16_pflops", "peak_pflops", "pflops_per_gpu", "dense_fp8_pflops"),
    "peak_flops": ("peak_flop_s", "flops_per_gpu"),
    "psu_efficiency": ("supply_efficiency", "psu_eff", "efficiency"),
    "energy_kwh": ("kwh",),
    "energy_mwh": ("mwh",),
    "derate": ("derating", "continuous_share", "derate_factor"),
    "upfront": ("upfront_cost", "upfront_price"),
    "cloud_total": ("total_cloud", "cloud_cost", "cloud_total_cost"),
    "own_total": ("total_own", "own_cost", "own_tco", "own_total_cost"),
    "power_from_w": ("from_w", "cap_from_w", "stock_w", "old_w"),
    "power_to_w": ("to_w", "cap_to_w", "new_w", "cap_w", "power_cap_w"),
    "speedup": ("speed_ratio", "speed_up"),
    "price_ratio": ("cost_multiple", "price_multiple"),
    "setup_one_time": ("setup", "one_time_setup", "setup_cost", "installation"),
    "discount_share": ("discount",),
    "cloud_per_month": ("api_per_month", "cloud_monthly", "cloud_month", "cloud_price_per_month", "cloud_bill_per_month"),
    "spot": ("spot_per_h", "spot_price", "spot_rate", "spot_price_per_h"),
}
# fmt: on
SYNONYM = {alias: name for name, aliases in NAMES.items() for alias in aliases}

# Shares that cases also state in percent: both spellings mean the share.
RATIOS = frozenset(
    {
        "utilisation", "derate", "discount_rate", "psu_efficiency", "mfu", "max_fill", "checkpoint_overhead", "tax_rate",
        "saving_share", "residual_share", "relative_throughput", "interruptions_per_h", "cap_share", "power_factor",
    }
)  # fmt: skip

UNITS: tuple[dict[str, float], ...] = (
    {"w": 1.0, "kw": 1e3, "mw": 1e6},
    {"gb": 1.0, "tb": 1e3, "pb": 1e6},
    {"gb_s": 1.0, "mb_s": 1e-3, "tb_s": 1e3, "gbit_s": 0.125},
    {"s": 1.0, "min": 60.0, "h": 3600.0, "hours": 3600.0, "days": 86400.0},
    {"kwh": 1.0, "mwh": 1e3, "gwh": 1e6},
    {"share": 1.0, "percent": 0.01},
)


@dataclass(frozen=True)
class Name:
    """A figure's name: canonical spelling, currency if one is in it, and the scale of that (k, m)."""

    canonical: str
    currency: str | None = None
    scale: float = 1.0


def canonical(name: str) -> Name:
    """Give a figure's name its one spelling: words replaced, currency taken out, known synonyms joined."""
    words: list[str] = []
    currency, scale = None, 1.0
    for word in name.lower().replace("-", "_").replace("/", "_per_").split("_"):
        found = re.fullmatch(rf"(k|m|wan)?({'|'.join(CURRENCIES)})", word)
        if found and currency is None:
            currency, scale = CURRENCIES[found[2]], SCALES[found[1] or ""]
            if not words:
                words.append("price")
        elif word:
            words.append(TOKENS.get(word, word))
    spelled = re.sub(r"_+", "_", "_".join(words))
    spelled = re.sub(r"^price_(?=per_(month|year)$)", "", spelled)
    if currency is None and spelled == "gpu":
        return Name("gpu")  # the card's name, not its price
    return Name(SYNONYM.get(spelled, spelled), currency, scale)


def unit_siblings(name: str) -> list[tuple[str, float]]:
    """The same quantity in other units: name and the factor from that unit to this one."""
    out = []
    for family in UNITS:
        for unit, size in family.items():
            if name == unit or name.endswith(f"_{unit}"):
                stem = name[: -len(unit)]
                # Money per kWh changes the other way round than kWh do.
                inverse = stem.endswith("per_")
                out += [
                    (stem + other, size / worth if inverse else worth / size)
                    for other, worth in family.items()
                    if other != unit
                ]
        if out:
            break
    return out
