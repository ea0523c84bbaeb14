"""Files that are no problem files: one message, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from problems.issues import Issue
from problems.load import MAX_BYTES, ProblemError, load_problem
from tests.problems.files import GOOD


def refused(path: str | Path) -> Issue:
    with pytest.raises(ProblemError) as caught:
        load_problem(path)
    assert len(caught.value.issues) == 1
    return caught.value.issues[0]


def test_no_such_file(tmp_path: Path) -> None:
    (tmp_path / "chat.yaml").write_text(GOOD)
    issue = refused(tmp_path / "chta.yaml")
    assert issue.message == "no such file"
    assert "chat.yaml" in issue.help
    assert refused(tmp_path / "no" / "x.yaml").message == "no such file"
    assert "empty" in refused("").message
    assert "cannot be read" in refused("a\0b").message


def test_directory(tmp_path: Path) -> None:
    (tmp_path / "chat.yaml").write_text(GOOD)
    issue = refused(tmp_path)
    assert "is a directory" in issue.message
    assert "chat.yaml" in issue.help


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(GOOD)
    file.chmod(0)
    assert "cannot be read" in refused(file).message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"name: x\0\n", "NUL byte"),
        (b"x" * (MAX_BYTES + 1), "larger than"),
        ("name: 聊天\n".encode("gbk"), "looks like GBK"),
        ("name: 聊天\n".encode("utf-16"), "UTF-16"),
        (b"name: \xff\xfe\x80", "not UTF-8"),
    ],
)
def test_not_text(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(data)
    assert words in refused(file).message


def test_position_of_the_first_foreign_byte(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes("a: 1\nname: 聊天\n".encode("gbk"))
    assert refused(file).where == f"{file}:2:7"


def test_fifty_megabytes_of_noise_are_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "noise"
    with file.open("wb") as out:
        out.write(os.urandom(100_000).replace(b"\0", b"\1"))
        out.truncate(50_000_000)
    assert "not a text file" in refused(file).message
