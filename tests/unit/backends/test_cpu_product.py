from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from evokern_cpu import compiler, flags, product
from evokern_cpu.product import Product

from evokern.errors import Unavailable
from evokern.kernel import Kernel

LIBRARY = b"\x7fELF and more"


def test_stored_product_is_found_by_its_key(tmp_path: Path) -> None:
    assert Product.find(tmp_path, "key") is None
    stored = Product.store(tmp_path, "key", LIBRARY, {"simd": "wide"})

    assert Product.find(tmp_path, "key") == stored
    assert stored.digest == hashlib.sha256(LIBRARY).hexdigest()
    assert stored.path.read_bytes() == LIBRARY
    assert stored.path.stat().st_mode & 0o222 == 0
    assert product.traits_beside(stored.path) == {"simd": "wide"}
    assert os.listdir(tmp_path) == ["key"]


def test_damaged_product_is_built_again(tmp_path: Path) -> None:
    path = Product.store(tmp_path, "key", LIBRARY, {}).path
    path.chmod(0o644)
    path.write_bytes(LIBRARY + b"!")

    assert Product.find(tmp_path, "key") is None
    assert Product.store(tmp_path, "key", LIBRARY, {}).path.read_bytes() == LIBRARY


def test_second_writer_takes_what_the_first_wrote(tmp_path: Path) -> None:
    first = Product.store(tmp_path, "key", LIBRARY, {"a": "1"})
    assert Product.store(tmp_path, "key", b"other", {"a": "2"}) == first
    assert product.traits_beside(first.path) == {"a": "1"}


def test_half_written_product_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / product.LIBRARY).write_bytes(LIBRARY)
    assert Product.find(tmp_path, "key") is None
    assert Product.store(tmp_path, "key", LIBRARY, {}).path.is_file()


def test_library_without_traits(tmp_path: Path) -> None:
    assert product.traits_beside(tmp_path / product.LIBRARY) == {}


def test_key_depends_on_every_part() -> None:
    keys = {product.key_of(source="a", flags=["-O3"]), product.key_of(source="b", flags=["-O3"]), product.key_of(source="a", flags=["-O2"])}
    assert len(keys) == 3
    assert product.key_of(flags=["-O3"], source="a") in keys


def test_flags_of_a_kernel_come_last() -> None:
    assert flags.flags_for(Kernel("cpp", "// flags: -O2\n")) == (*flags.FIXED, "-O2")


def test_compiler_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiler.SETTING, "no-such-compiler")
    with pytest.raises(Unavailable, match="EVOKERN_CXX=no-such-compiler: no such compiler"):
        compiler.find()


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(compiler.SETTING, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="Install one"):
        compiler.find()


def test_program_that_is_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "silent"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv(compiler.SETTING, str(program))
    with pytest.raises(Unavailable, match="does not answer"):
        compiler.find()


def test_compiler_elsewhere_is_shown_to_the_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "my-c++"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho my c++ 1.0\n")
    program.chmod(0o755)
    monkeypatch.setenv(compiler.SETTING, str(program))
    found = compiler.find()
    assert (found.path, found.version, found.readable) == (str(program), "my c++ 1.0", (tmp_path,))
    program.write_text("#!/bin/sh\necho my c++ 1.0 \n")
    assert compiler.find().identity != found.identity
