"""Names of models, the config.json reader for every family, stand-ins for bare sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.errors import UnknownName
from catalogs.load import load_catalog
from catalogs.model_config import ConfigError, quantised_precision
from catalogs.models import count_parameters, model_columns, models_frame, resolve_model, resolve_models, stand_in
from problems.schema import BareModel, ConfigModel

CATALOG = load_catalog()
SAMPLES = json.loads((Path(__file__).parent / "model_configs.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("model", CATALOG.models["model"].to_list())
def test_every_model_resolves(model: str) -> None:
    for name in (model, model.lower(), model.upper(), model.replace("-", "_"), f"someone/{model}-Instruct"):
        assert resolve_model(CATALOG, name).label == model
    row = resolve_model(CATALOG, model)
    assert not row.stand_in
    assert row["hidden"] > 0
    assert set(row.as_dict()) == {*model_columns(CATALOG), "label", "stand_in"}


@pytest.mark.parametrize("alias", CATALOG.model_aliases["alias"].to_list())
def test_every_alias_resolves(alias: str) -> None:
    target = CATALOG.model_aliases.filter(alias=alias)["model"].item()
    assert resolve_model(CATALOG, alias).label == target


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "Llama-3.1-70B"),
        ("meta-llama/Meta-Llama-3-8B", "Llama-3-8B"),
        ("llama-3-70b", "Llama-3-70B"),
        ("llama3.1:70b", "Llama-3.1-70B"),
        ("Mistral-7B-v0.3", "Mistral-7B-v0.3"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "Mistral-7B-v0.2"),
        ("Mistral-7B", "Mistral-7B-v0.3"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"),
        ("deepseek-ai/DeepSeek-R1-0528", "DeepSeek-R1"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "Qwen3-30B-A3B"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "Llama-3.1-8B"),
        ("TheBloke/Llama-2-70B-AWQ", "Llama-2-70B"),
        ("google/gemma-3-27b-it", "Gemma-3-27B"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("gpt3", "GPT-3-175B"),
    ],
)
def test_names_as_people_write_them(name: str, model: str) -> None:
    assert resolve_model(CATALOG, name).label == model


def test_unknown_names_come_with_suggestions() -> None:
    with pytest.raises(UnknownName, match="did you mean") as caught:
        resolve_model(CATALOG, "llama-3.1-71b")
    assert "Llama-3.1-70B" in caught.value.suggestions
    with pytest.raises(UnknownName, match="unknown model 'zzz'"):
        resolve_model(CATALOG, "zzz")
    rows, errors = resolve_models(CATALOG, ["llama-3-8b", "zzz"])
    assert [row.label for row in rows] == ["Llama-3-8B"]
    assert len(errors) == 1


def test_neighbours_are_not_confused() -> None:
    assert resolve_model(CATALOG, "Qwen3-30B-A3B").label != resolve_model(CATALOG, "Qwen3-32B").label
    assert resolve_model(CATALOG, "Llama-3.1-8B").label != resolve_model(CATALOG, "Llama-3-8B").label
    assert resolve_model(CATALOG, "opt-1.3b").label != resolve_model(CATALOG, "opt-13b").label
    for wrong in ("Llama-3.1-7B", "gpt-oss-12b", "Mixtral-8x8B"):
        with pytest.raises(UnknownName):
            resolve_model(CATALOG, wrong)


# --- config.json ---------------------------------------------------------------------------------------------------------


def write(folder: Path, config: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


@pytest.mark.parametrize("model", sorted(SAMPLES))
def test_config_of_every_family_gives_the_table_row(model: str, tmp_path: Path) -> None:
    path = write(tmp_path / "checkpoint", SAMPLES[model])
    read = resolve_model(CATALOG, ConfigModel(config=str(path)))
    known = resolve_model(CATALOG, model)
    assert read.label == "checkpoint"
    # Prediction heads that some checkpoints carry besides are no part of the decoder: up to 3 %.
    assert read.params_total_b == pytest.approx(known.params_total_b, rel=0.03)
    catalog_only = {"model", "params_total_b", "params_active_b", "vision_params_b", "native_precision",
                    "sliding_pattern", "rope_positions", "max_context", "rotary_dim", "shared_experts",
                    "ffn_matrices", "learned_positions", "moe_intermediate", "family"}  # fmt: skip
    defaults = {"dense_layers": 0, "full_layers": known["layers"], "attention_gate": False, "shared_intermediate": 0}
    for column in set(model_columns(CATALOG)) - catalog_only:
        default = defaults.get(column)
        ours = default if read[column] is None else read[column]
        theirs = default if known[column] is None else known[column]
        if column == "intermediate" and known[column] is None:
            continue
        assert ours == theirs, column
    frame = models_frame(CATALOG, [read, known])
    assert frame.height == 2


def test_samples_cover_every_family_of_the_reference_table() -> None:
    families = {resolve_model(CATALOG, model)["family"] for model in SAMPLES}
    dense = "llama mistral qwen2 qwen3 gemma gemma2 gemma3 gemma4 phi phi3 falcon bloom opt gpt2 gptj gpt_neox mpt glm4"
    experts = "mixtral qwen2_moe qwen3_moe deepseek_v2 deepseek_v3 gpt_oss glm4_moe minimax_m2 llama4 mimo_v2"
    others = "cohere cohere2 mimo granite qwen3_next qwen3_5 qwen3_5_moe minimax nemotron_h"
    assert families >= set(f"{dense} {experts} {others}".split())


def test_folder_works_as_well_as_file_and_paths_are_relative(tmp_path: Path) -> None:
    write(tmp_path / "my-llama", SAMPLES["Llama-3.1-8B"])
    by_folder = resolve_model(CATALOG, ConfigModel(config="my-llama"), tmp_path)
    by_file = resolve_model(CATALOG, "./my-llama/config.json", tmp_path)
    assert by_folder.label == by_file.label == "my-llama"
    assert by_folder.columns == by_file.columns


def test_index_beside_the_config_gives_the_true_size(tmp_path: Path) -> None:
    path = write(tmp_path / "m", SAMPLES["Llama-3.1-8B"])
    index = tmp_path / "m" / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 16_060_522_496}, "weight_map": {}}), encoding="utf-8")
    row = resolve_model(CATALOG, ConfigModel(config=str(path)))
    assert row.params_total_b == pytest.approx(8.030261248)
    assert row.checkpoint_gib == pytest.approx(14.9575, abs=1e-3)
    index.write_text(json.dumps({"metadata": {}}), encoding="utf-8")
    with pytest.raises(ConfigError, match="total_size"):
        resolve_model(CATALOG, ConfigModel(config=str(path)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "t5", "d_model": 512}, "encoder-decoder"),
        ({"model_type": "mamba"}, "without attention"),
        ({"model_type": "bert"}, "without a KV cache"),
        ({"model_type": "brand_new_thing"}, "not a decoder family"),
        ({"hidden_size": 4096}, "no model_type"),
        ({"model_type": "llama", "hidden_size": 4096}, "num_hidden_layers, num_attention_heads, vocab_size"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_model(CATALOG, ConfigModel(config=str(write(tmp_path, config))))


def test_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve_model(CATALOG, ConfigModel(config=str(tmp_path / "none.json")))
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match="not valid JSON"):
        resolve_model(CATALOG, ConfigModel(config=str(tmp_path / "bad.json")))
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="JSON object"):
        resolve_model(CATALOG, ConfigModel(config=str(tmp_path / "list.json")))


@pytest.mark.parametrize(
    ("config", "precision"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "awq-w4"),
        ({"quant_method": "gptq", "bits": 4}, "gptq-w4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}, "w4a16-g128"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, "fp8"),
        ({"quant_method": "something"}, None),
    ],
)  # fmt: skip
def test_quantization_config(config: dict[str, Any], precision: str | None) -> None:
    assert quantised_precision(config) == precision
    assert precision is None or precision in set(CATALOG.quantisation["precision"])


def test_quantised_checkpoint_is_noted(tmp_path: Path) -> None:
    config = {**SAMPLES["Llama-3.1-8B"], "quantization_config": {"quant_method": "fp8"}}
    row = resolve_model(CATALOG, ConfigModel(config=str(write(tmp_path, config))))
    assert row["native_precision"] == "fp8"
    assert any("fp8" in note for note in row.notes)


# --- bare sizes ------------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.floats(1e8, 2e12))
def test_stand_in_has_the_size_asked_for(params: float) -> None:
    row = stand_in(CATALOG, params)
    total, _ = count_parameters(row.columns, model_columns(CATALOG))
    assert row.stand_in
    assert total == pytest.approx(params / 1e9, rel=0.02)
    assert row["heads"] % row["kv_heads"] == 0
    assert row["heads"] % 8 == 0
    assert row["hidden"] == row["heads"] * row["head_dim"]


def test_stand_in_of_175b_has_the_shape_of_gpt_3() -> None:
    row = resolve_model(CATALOG, BareModel.model_validate({"params": "175B"}))
    assert row.stand_in
    assert (row["hidden"], row["heads"]) == (12288, 96)
    assert 92 <= row["layers"] <= 98
    assert row["kv_heads"] == 8
