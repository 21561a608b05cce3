from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from evokern_cpu import compiler, flags

from evokern.building import product
from evokern.building.product import Product
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
    assert stored.traits == {"simd": "wide"}
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
    assert first.traits == {"a": "1"}


def test_half_written_product_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / product.LIBRARY).write_bytes(LIBRARY)
    assert Product.find(tmp_path, "key") is None
    assert Product.store(tmp_path, "key", LIBRARY, {}).path.is_file()


SEAL = b"a key of the judge's own"


def stored(cache: Path, key: str, library: bytes = LIBRARY, seal: bytes = SEAL) -> Path:
    return Product.store(cache, key, library, {"needs": key}, seal).path.parent


def test_a_product_in_another_ones_place_is_not_taken(tmp_path: Path) -> None:
    fast, slow = stored(tmp_path, "fast"), stored(tmp_path, "slow", b"slow")
    fast.rename(tmp_path / "aside")
    slow.rename(fast)

    assert Product.find(tmp_path, "fast", SEAL) is None
    assert not fast.exists()
    assert Product.store(tmp_path, "fast", LIBRARY, {}, SEAL).path.read_bytes() == LIBRARY


@pytest.mark.parametrize("part", [product.LIBRARY, product._TRAITS, product._SEAL])
def test_a_part_of_another_product_is_not_taken(tmp_path: Path, part: str) -> None:
    fast, slow = stored(tmp_path, "fast"), stored(tmp_path, "slow", b"slow")
    (slow / part).replace(fast / part)

    assert Product.find(tmp_path, "fast", SEAL) is None


def test_a_product_that_somebody_else_sealed_is_not_taken(tmp_path: Path) -> None:
    for seal in (b"", b"guessed"):
        stored(tmp_path, "key", b"somebody else's", seal)
        assert Product.find(tmp_path, "key", SEAL) is None
        stored(tmp_path, "key", b"somebody else's", seal)
        assert Product.store(tmp_path, "key", LIBRARY, {}, SEAL).path.read_bytes() == LIBRARY


def test_traits_that_are_none_are_empty(tmp_path: Path) -> None:
    for text in (b"[]", b'{"a": 1}', b"\xff", b"[" * 100_000):
        folder = stored(tmp_path, "key")
        (folder / product._TRAITS).unlink()
        (folder / product._TRAITS).write_bytes(text)
        (folder / product._SEAL).unlink()
        (folder / product._SEAL).write_bytes(product._sealed(SEAL, "key", hashlib.sha256(LIBRARY).hexdigest(), text))
        found = Product.find(tmp_path, "key", SEAL)
        assert found is not None and found.traits == {}
        (folder / product._SEAL).unlink()


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


def test_images_belong_to_their_product(tmp_path: Path) -> None:
    stored = Product.store(tmp_path, "key", LIBRARY, {"a": "1"}, SEAL, {"image.bin": b"cubin", "image-2.bin": b"another"})
    found = Product.find(tmp_path, "key", SEAL)
    assert found == stored
    assert [(file.name, file.read_bytes(), file.stat().st_mode & 0o222) for file in stored.images] == [
        ("image-2.bin", b"another", 0),
        ("image.bin", b"cubin", 0),
    ]


@pytest.mark.parametrize("harm", ["changed", "removed", "added", "renamed"])
def test_a_product_whose_images_are_not_its_own_is_built_again(tmp_path: Path, harm: str) -> None:
    (image,) = Product.store(tmp_path, "key", LIBRARY, {}, SEAL, {"image.bin": b"cubin"}).images
    if harm == "changed":
        image.chmod(0o644)
        image.write_bytes(b"cubit")
    elif harm == "removed":
        image.unlink()
    elif harm == "added":
        image.with_name("image-2.bin").write_bytes(b"cubin")
    else:
        image.rename(image.with_name("image-2.bin"))
    assert Product.find(tmp_path, "key", SEAL) is None
    again = Product.store(tmp_path, "key", LIBRARY, {}, SEAL, {"image.bin": b"cubin"})
    assert [file.read_bytes() for file in again.images] == [b"cubin"]
