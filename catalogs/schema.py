"""The registry of catalogue tables: name -> frame schema, and which column refers to which table.

The name is the CSV's name in `catalogs/data` and in an overlay folder, and the attribute of `Catalog`. To
add a table: write its schema, add a line here and a field to `catalogs.catalog.Catalog`, put the CSV into
`catalogs/data`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy

from catalogs import hardware, market, places, schema_models, schema_modes, schema_speed, schema_storage

TABLES: Mapping[str, type[dy.Schema]] = {
    "accelerators": hardware.Accelerators,
    "accelerator_aliases": hardware.AcceleratorAliases,
    "servers": hardware.Servers,
    "cpus": hardware.Cpus,
    "ram": hardware.Ram,
    "storage": hardware.Storage,
    "storage_terms": hardware.StorageTerms,
    "storage_boxes": schema_storage.StorageBoxes,
    "storage_systems": schema_storage.StorageSystems,
    "network": hardware.Network,
    "offers": market.Offers,
    "deployment_modes": schema_modes.DeploymentModes,
    "prices": market.Prices,
    "compute_units": market.ComputeUnits,
    "capacity_blocks": market.CapacityBlocks,
    "book": market.Book,
    "discounts": market.Discounts,
    "spot_interruption": market.SpotInterruption,
    "terms": market.Terms,
    "egress": market.Egress,
    "fx": market.Fx,
    "regions": market.Regions,
    "refused": market.Refused,
    "electricity": places.Electricity,
    "pue": places.Pue,
    "carbon": places.Carbon,
    "colocation": places.Colocation,
    "maintenance": places.Maintenance,
    "trends": places.Trends,
    "calendars": places.Calendars,
    "assumptions": places.Assumptions,
    "rules": places.Rules,
    "models": schema_models.Models,
    "model_aliases": schema_models.ModelAliases,
    "engines": schema_models.Engines,
    "quantisation": schema_models.Quantisation,
    "kv_precisions": schema_models.KvPrecisions,
    "optimisers": schema_models.Optimisers,
    "memory_constants": schema_models.MemoryConstants,
    "speed_classes": schema_speed.SpeedClasses,
    "calibration_serving": schema_speed.CalibrationServing,
    "calibration_links": schema_speed.CalibrationLinks,
    "calibration_training": schema_speed.CalibrationTraining,
    "power_curves": schema_speed.PowerCurves,
    "power_phases": schema_speed.PowerPhases,
    "engine_support": schema_speed.EngineSupport,
    "benchmark_lengths": schema_speed.BenchmarkLengths,
    "measurements_serving": schema_speed.MeasurementsServing,
    "user_measurements": schema_speed.UserMeasurements,
    "user_rates": schema_speed.UserRates,
}


@dataclass(frozen=True)
class Reference:
    """`table.column` names rows of `target.target_column`; `listed`: several names, split by ";"."""

    table: str
    column: str
    target: str
    target_column: str
    listed: bool = False


REFERENCES: tuple[Reference, ...] = (
    Reference("accelerator_aliases", "accelerator", "accelerators", "accelerator"),
    Reference("offers", "accelerator", "accelerators", "accelerator"),
    Reference("offers", "deployment_mode", "deployment_modes", "mode"),
    Reference("servers", "deployment_mode", "deployment_modes", "mode"),
    Reference("prices", "offer_id", "offers", "offer_id"),
    Reference("compute_units", "accelerator", "accelerators", "accelerator"),
    Reference("servers", "fits", "accelerators", "accelerator", listed=True),
    Reference("servers", "cpu_default", "cpus", "cpu"),
    Reference("servers", "included_network", "network", "network"),
    Reference("storage_terms", "storage", "storage", "storage"),
    Reference("storage_boxes", "network", "network", "network"),
    Reference("storage_systems", "box", "storage_boxes", "box"),
    Reference("storage_systems", "drive", "storage", "storage"),
    Reference("model_aliases", "model", "models", "model"),
    Reference("speed_classes", "accelerator", "accelerators", "accelerator"),
    Reference("measurements_serving", "accelerator", "accelerators", "accelerator"),
    Reference("measurements_serving", "model", "models", "model"),
    Reference("user_measurements", "accelerator", "accelerators", "accelerator"),
    Reference("user_rates", "accelerator", "accelerators", "accelerator"),
)
