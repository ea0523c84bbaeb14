"""Names of accelerators: no family leaks into another, every public label resolves or is refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.load import load_catalog
from catalogs.names import match_accelerators, resolve_accelerator


@pytest.mark.parametrize(
    ("label", "names"),
    [
        ("A10", ["A10"]),
        ("A10G", ["A10G"]),
        ("A10-24GB", ["A10"]),
        ("NVIDIA A10G Tensor Core", ["A10G"]),
        ("A100", ["A100-40GB-PCIe", "A100-40GB-SXM4", "A100-80GB-PCIe", "A100-80GB-SXM4"]),
        ("A100-80GB", ["A100-80GB-PCIe", "A100-80GB-SXM4"]),
        ("a100 80g", ["A100-80GB-PCIe", "A100-80GB-SXM4"]),
        ("NVIDIA A100-SXM4-80GB", ["A100-80GB-SXM4"]),
        ("A100-PCIE-40GB", ["A100-40GB-PCIe"]),
        (
            "A100 (form factor not stated)",
            ["A100-40GB-PCIe", "A100-40GB-SXM4", "A100-80GB-PCIe", "A100-80GB-SXM4"],
        ),
        ("H100", ["H100-80GB-PCIe", "H100-80GB-SXM5", "H100-94GB-NVL"]),
        ("H100 (PCIe)", ["H100-80GB-PCIe"]),
        ("H100 SXM", ["H100-80GB-SXM5"]),
        ("H100 NVL", ["H100-94GB-NVL"]),
        ("H100NVL", ["H100-94GB-NVL"]),
        ("NVIDIA H100 80GB HBM3", ["H100-80GB-SXM5"]),
        ("H100-MEGA", ["H100-80GB-SXM5"]),
        ("H20", ["H20-96GB-SXM5"]),
        ("H200", ["H200-141GB-SXM5", "H200-141GB-NVL"]),
        ("L4", ["L4"]),
        ("L40", ["L40"]),
        ("L40S", ["L40S"]),
        ("l40s-48gb", ["L40S"]),
        ("L20", ["L20"]),
        ("4090", ["RTX-4090"]),
        ("GeForce RTX 4090", ["RTX-4090"]),
        ("RTX4090D", ["RTX-4090D"]),
        ("RTX 4060 Ti 16G", ["RTX-4060Ti-16GB"]),
        ("rtx_6000_ada", ["RTX-6000-Ada"]),
        ("RTX6000Ada", ["RTX-6000-Ada"]),
        ("A6000", ["RTX-A6000"]),
        ("RTXA6000", ["RTX-A6000"]),
        ("RTXPRO6000", ["RTX-PRO-6000-Blackwell-Server", "RTX-PRO-6000-Blackwell-Workstation"]),
        ("RTX PRO 6000 Workstation Edition", ["RTX-PRO-6000-Blackwell-Workstation"]),
        ("B100", ["B100-SXM6"]),
        ("B200", ["B200-180GB-SXM6"]),
        ("B200-192GB-SXM", ["B200-180GB-SXM6"]),
        ("GB200", ["GB200-186GB"]),
        ("GB200-186GB (per GPU)", ["GB200-186GB"]),
        ("MI300X", ["MI300X"]),
        ("AMD Instinct MI300X 192GB", ["MI300X"]),
        ("gaudi 2", ["Gaudi2"]),
        ("GAUDI2", ["Gaudi2"]),
        ("gaudi", ["Gaudi2", "Gaudi3"]),
        ("昇腾910B", ["Ascend-910B"]),
        ("华为 昇腾 910B3", ["Ascend-910B3"]),
        ("910B", ["Ascend-910B"]),
        ("Ascend-910B-64GB", ["Ascend-910B"]),
        ("Ｈ２０", ["H20-96GB-SXM5"]),
        ("Tesla T4", ["T4"]),
        ("trainium", ["Trainium1"]),
        ("tpu v5e", ["TPU-v5e"]),
        ("groq", ["Groq-LPU-v1"]),
        ("CS-3", ["Cerebras-CS-3"]),
    ],
)
def test_label_matches(catalog: Catalog, label: str, names: list[str]) -> None:
    assert sorted(match_accelerators(catalog, label)) == sorted(names)


NO_ONE_CARD = """
80GB | 80GB card | GPU | A1 | H1 | A100-60GB | H100-96GB-HBM2e (500W) | RTX-3090Ti | RTX 6000
T4g | GH200-144GB | V100-SXM3 | H100-40GB | L40S SXM | 48GB-Ada (L40/L40S) | unknown (4 GPUs)
"""


@pytest.mark.parametrize("label", ["", "  ", *(name.strip() for name in NO_ONE_CARD.replace("\n", "|").split("|"))])
def test_label_of_no_one_card_is_refused(catalog: Catalog, label: str) -> None:
    assert match_accelerators(catalog, label) == ()
    with pytest.raises(UnknownName):
        resolve_accelerator(catalog, label)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("H100", "H100-80GB-SXM5"),
        ("H200", "H200-141GB-SXM5"),
        ("A100", "A100-80GB-SXM4"),
        ("A100-40GB", "A100-40GB-SXM4"),
        ("V100", "V100-32GB-SXM2"),
        ("RTX PRO 6000", "RTX-PRO-6000-Blackwell-Server"),
        ("A100-80GB-PCIe", "A100-80GB-PCIe"),
    ],
)
def test_default_form_factor(catalog: Catalog, label: str, name: str) -> None:
    assert resolve_accelerator(catalog, label) == name


@pytest.mark.parametrize(
    ("label", "first"),
    [
        ("H10O", "H100-80GB-PCIe"),
        ("H100-96GB", "H100-80GB-PCIe"),
        ("L40X", "L40"),
        ("RTX 6000", "RTX-6000-Ada"),
        ("RTX 3090 Ti", "RTX-3090"),
        ("Ascend 910", "Ascend-910B"),
    ],
)
def test_did_you_mean(catalog: Catalog, label: str, first: str) -> None:
    with pytest.raises(UnknownName) as caught:
        resolve_accelerator(catalog, label)
    assert caught.value.suggestions[0] == first
    assert caught.value.kind == "accelerator"
    assert str(caught.value).startswith(f"unknown accelerator {label!r}; did you mean {first}")


def test_own_names_mean_themselves(catalog: Catalog) -> None:
    for name in catalog.accelerators["accelerator"]:
        assert match_accelerators(catalog, name) == (name,)
        assert match_accelerators(catalog, name.lower().replace("-", " ")) == (name,)


def test_aliases_mean_their_targets_and_hide_no_name(catalog: Catalog) -> None:
    for alias, names in catalog.accelerator_aliases.group_by("alias").agg("accelerator").iter_rows():
        assert set(match_accelerators(catalog, alias)) == set(names)
    names = {name.lower() for name in catalog.accelerators["accelerator"]}
    assert not names & {alias.lower() for alias in catalog.accelerator_aliases["alias"]}


@given(st.sampled_from(load_catalog().accelerators["accelerator"].to_list()), st.data())
def test_case_and_punctuation_do_not_matter(name: str, data: st.DataObject) -> None:
    separator = data.draw(st.sampled_from(["-", " ", "_", " - "]))
    cased = "".join(c.upper() if data.draw(st.booleans()) else c.lower() for c in name)
    assert match_accelerators(load_catalog(), cased.replace("-", separator)) == (name,)


@given(st.text(max_size=30))
def test_any_text_is_answered_or_refused(text: str) -> None:
    catalog = load_catalog()
    known = set(catalog.accelerators["accelerator"])
    assert set(match_accelerators(catalog, text)) <= known
    if match_accelerators(catalog, text):
        assert resolve_accelerator(catalog, text) in known
    else:
        with pytest.raises(UnknownName) as caught:
            resolve_accelerator(catalog, text)
        assert set(caught.value.suggestions) <= known


# Labels of the reference sets that name no accelerator of the catalogue, and why.
REFUSED = {
    "48GB-Ada (L40/L40S)": "two cards",
    "8-GPU node (H200 assumed)": "a node",
    "80GB card": "no card named",
    "CI CUDA GPU": "no card named",
    "RTX-16GB (WSL2)": "no card named",
    "unknown (4 GPUs)": "no card named",
    "not stated (250 W card)": "no card named",
    "GH200-144GB": "not in the catalogue",
    "RTX-3090Ti": "not in the catalogue",
    "Quadro-RTX-6000": "not in the catalogue",
    "RTX-5060Ti-16GB": "not in the catalogue",
    "MI350X": "not in the catalogue",
    "H100-96GB-HBM2e (500W)": "not in the catalogue",
}


@pytest.mark.parametrize("table", ["inference_measured", "memory_logs", "power_measured", "training_measured"])
def test_every_label_of_the_reference_sets(catalog: Catalog, shared: Path, table: str) -> None:
    labels = pl.read_csv(shared / "reference" / f"{table}.csv", infer_schema=False)["gpu"].drop_nulls().unique()
    lost = {label for label in labels if not match_accelerators(catalog, label)}
    assert lost <= set(REFUSED)
