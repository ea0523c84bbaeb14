"""Data classes of problem files: what loads, and what is refused with which message."""

from __future__ import annotations

import json

import pytest

from problems import units
from problems.load import ProblemError, load_text
from problems.scan import UnitError

HEAD = "workloads:\n  - {name: t, kind: pretrain, model: {params: 7B}, tokens: 1B, "


def problem(data: str, more: str = "") -> str:
    return f"{HEAD}data: [{data}]}}\n{more}"


def test_classes_load_and_are_written_back_the_same() -> None:
    text = problem(
        "{class: training_data, size: 2TB, read: 40GB/s, staged: yes}, {class: checkpoints, within: 2min, kept: 3}",
        "sites: [{name: room}]\ndata: [{class: archive, size: 20TB, site: room, retention: 5y}]",
    )
    loaded = load_text(text).problem
    first, second = loaded.workloads[0].data
    assert (first.kind, first.size, first.read, first.staged) == ("training_data", 2e12, 40.0, "yes")
    assert (second.kind, second.within, second.kept) == ("checkpoints", 120.0, 3)
    assert (loaded.data[0].site, loaded.data[0].retention) == ("room", 60.0)
    written = loaded.model_dump(mode="json")
    assert written["workloads"][0]["data"][0]["class"] == "training_data"
    assert load_text(json.dumps(written)).problem == loaded


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        (problem("{class: training_data}"), "workloads.t.data[0]", "training_data needs its size"),
        (problem("{class: training_data, size: 1TB, read: 40Gb/s}"), "workloads.t.data[0].read", "Gb/s is bits"),
        (problem("{class: training_data, size: 1TB, read: 40}"), "workloads.t.data[0].read", "has no unit"),
        (problem("{class: kv_offload, size: 1TB}"), "workloads.t.data[0].class", "no data of a pretrain workload"),
        (problem("{class: weight}"), "workloads.t.data[0].class", 'unknown class "weight"'),
        (problem("{size: 1TB}"), "workloads.t.data[0].class", 'missing required key "class"'),
        (problem("{class: archive, size: 1TB, kept: 3}"), "workloads.t.data[0].kept", "kept is for checkpoints"),
        (problem("{class: archive, size: 1TB, staged: yes}"), "workloads.t.data[0].staged", "staged is for"),
        (
            problem("{class: archive, size: 1TB}, {class: archive, size: 2TB}"),
            "workloads.t.data[1].class",
            "archive is given twice",
        ),
        (
            f"{HEAD}dataset: 1TB, data: [{{class: training_data, size: 1TB}}]}}",
            "workloads.t.dataset",
            "dataset is the short form",
        ),
        (problem("", "data: [{class: archive, size: 1TB, site: room}]"), "data[0].site", "unknown site room"),
        (
            problem("", "sites: [{name: room}]\ndata: [{class: archive, size: 1TB, site: room, country: US}]"),
            "data[0]",
            "the site or the country, not both",
        ),
        (problem("", "data: [{class: backups}]"), "data[0]", "give the size"),
        (
            "workloads: [{name: f, kind: fixed, accelerator: A100, data: [{class: checkpoints}]}]",
            "workloads.f.data[0]",
            "no model is known",
        ),
    ],
)
def test_faults_are_named(text: str, field: str, words: str) -> None:
    with pytest.raises(ProblemError) as caught:
        load_text(text)
    said = str(caught.value)
    assert f"{field}\n" in said
    assert words in said


def test_storage_speeds_are_bytes() -> None:
    assert units.parse_throughput("40GB/s") == 40
    assert units.parse_throughput("500 MB/s") == 0.5
    assert units.parse_throughput("1.2TB/s") == 1200
    assert units.parse_throughput("1GiB/s") == 1.073741824
    assert units.parse_throughput(units.format_throughput(1200.0)) == 1200
    for text in ("40Gb/s", "400Gbps", "40gb/s", "40GB", "40", "fast"):
        with pytest.raises(UnitError):
            units.parse_throughput(text)
