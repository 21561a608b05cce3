"""Windows, runners, capture and sealed replay on a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evokern.backend import Noted
from evokern.errors import Unavailable
from tests.gpu import runners
from tests.gpu.runners import Bench, Ended, Runner, protocol

FIRST, SECOND, THIRD = (0, 0), (4096, 8192), (12288, 1024)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    from evokern_gpu.device import Gpu

    try:
        found = Gpu(home=tmp_path_factory.mktemp("home"))
    except Unavailable as error:
        pytest.skip(str(error))
    yield found
    found.close()


@pytest.fixture(scope="module")
def built(gpu: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if runners.nvcc() is None:
        pytest.skip("nvcc is not here")
    folder, found = tmp_path_factory.mktemp("variants"), {}

    def variant(number: int) -> tuple[Path, Path]:
        if number not in found:
            found[number] = runners.build(number, folder, gpu.facts()["arch"])
        return found[number]

    return variant


@pytest.fixture
def bench(gpu: Any) -> Iterator[Bench]:
    held = Bench(gpu, 128, 1000)
    yield held
    held.close()


def sealed(gpu: Any, bench: Bench, variant: tuple[Path, Path], folder: Path) -> Path:
    library, image = variant
    with Runner(library) as runner:
        bench.bind(runner)
        first = runner.capture(bench.write(SECOND), bench.workspace_at(256))
        places = bench.write(THIRD)
        second = runner.capture(places, bench.workspace_at(1024))
    path = folder / f"{library.stem}.sealed"
    path.write_bytes(gpu.sealed([image.read_bytes()], [Noted(places, bench.workspace_at(0)[1], first, second)]))
    return path


class TestGpu:
    def test_says_what_the_device_is(self, gpu: Any) -> None:
        facts = gpu.facts()

        assert facts["arch"].startswith("sm_")
        assert facts["uuid"].startswith("GPU-")
        assert min(facts["memory_bytes"], facts["l2_bytes"], facts["multiprocessors"], facts["shared_bytes"]) > 0
        assert gpu.clock()["sm_mhz"] > 0

    def test_a_window_is_a_tensor_without_a_copy_and_is_given_back(self, gpu: Any) -> None:
        before = gpu.driver.memory()[0]
        window = gpu.window((64 << 20) + 1)

        assert window.size % gpu.driver.granularity() == 0
        assert window.size > 64 << 20
        tensor = gpu.tensor(window)
        assert tensor.data_ptr() == window.address
        tensor.fill_(3)
        assert gpu.driver.read(window.address + window.size - 4, 4) == b"\x03\x03\x03\x03"
        del tensor
        window.close()
        window.close()
        assert gpu.driver.memory()[0] >= before - (32 << 20)

    def test_more_than_there_is_is_unavailable(self, gpu: Any) -> None:
        with pytest.raises(Unavailable):
            gpu.window(1 << 50)

    def test_the_probe_is_short_when_the_device_is_free(self, gpu: Any) -> None:
        gpu.evict()

        assert statistics.median(gpu.probe_us() for _ in range(20)) < 200

    def test_ceilings_are_kept(self, gpu: Any) -> None:
        found = gpu.ceilings()

        assert found["launch_us"] < 50
        assert min(found[name] for name in ("copy", "read", "write", "vector", "matrix")) > 1e9
        assert gpu.ceilings() == found


class TestRunner:
    @pytest.mark.parametrize("number", [*runners.SEALABLE, *runners.UNSEALABLE])
    def test_answers_are_right_wherever_arguments_lie(self, bench: Bench, built: Any, number: int) -> None:
        with Runner(built(number)[0]) as runner:
            bench.bind(runner)
            for offsets in (FIRST, SECOND):
                if number == runners.REMEMBERS and offsets != FIRST:
                    continue
                assert runner.call(bench.write(offsets), workspace=bench.workspace_at(64)).status == 0
                assert bench.is_right(bench.output(offsets[1]))

    def test_a_workspace_is_asked_for(self, bench: Bench, built: Any) -> None:
        with Runner(built(runners.WORKSPACE)[0]) as runner:
            bench.bind(runner)

            assert runner.size(bench.write(FIRST)) == 4 * bench.rows

    def test_windows_can_be_bound_anew(self, bench: Bench, built: Any) -> None:
        with Runner(built(runners.PLAIN)[0]) as runner:
            for _ in range(3):
                bench.bind(runner)
                assert runner.call(bench.write(FIRST)).status == 0
            assert bench.is_right(bench.output(0))

    @pytest.mark.parametrize("number", [runners.ILLEGAL_ADDRESS, runners.WRITES_BEYOND])
    def test_a_lost_context_ends_the_process_with_the_reason(self, bench: Bench, built: Any, number: int) -> None:
        with Runner(built(number)[0]) as runner, pytest.raises(Ended) as ended:
            bench.bind(runner)
            runner.call(bench.write(FIRST))

        assert ended.value.status == 121
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in ended.value.printed

    def test_what_writes_an_input_ends_or_is_seen(self, gpu: Any, bench: Bench, built: Any) -> None:
        address = gpu.driver.import_(os.dup(bench.windows[0].descriptor), bench.windows[0].size, read_only=True)
        keeps_writers_out = not gpu.driver.writable(address)
        gpu.driver.unmap(address)
        with Runner(built(runners.WRITES_AN_INPUT)[0]) as runner:
            bench.bind(runner)
            places = bench.write(FIRST)
            if keeps_writers_out:
                with pytest.raises(Ended) as ended:
                    runner.call(places)
                assert ended.value.status == 121
            else:
                assert runner.call(places).status == 0

    def test_a_status_is_told(self, bench: Bench, built: Any) -> None:
        with Runner(built(runners.RETURNS_SEVEN)[0]) as runner:
            bench.bind(runner)

            assert runner.call(bench.write(FIRST)).status == 7

    def test_the_device_is_free_after_a_kernel_that_never_ends_is_killed(self, gpu: Any, bench: Bench, built: Any) -> None:
        with Runner(built(runners.NEVER_ENDS)[0]) as runner:
            bench.bind(runner)
            runner.settle(1.0)
            with pytest.raises(TimeoutError):
                runner.call(bench.write(FIRST))

        assert statistics.median(gpu.probe_us() for _ in range(20)) < 200


class TestSealed:
    @pytest.mark.parametrize("number", runners.SEALABLE)
    def test_is_bit_equal_at_other_addresses(self, gpu: Any, bench: Bench, built: Any, tmp_path: Path, number: int) -> None:
        with Runner(built(number)[0]) as runner:
            bench.bind(runner)
            runner.call(bench.write(FIRST), workspace=bench.workspace_at(64))
            wanted = bench.output(FIRST[1])
        with Runner(sealed(gpu, bench, built(number), tmp_path), runners.SEALED) as runner:
            bench.bind(runner)
            assert runner.call(bench.write(FIRST), workspace=bench.workspace_at(128)).status == 0
            assert bool((bench.output(FIRST[1]) == wanted).all().item())
            done = runner.call(bench.write(SECOND), protocol.Kind.SAMPLE, bench.workspace_at(512))
            assert bool((bench.output(SECOND[1]) == wanted).all().item())
            assert done.status == 0
            assert 0 < done.claimed_ns < 1e8

    @pytest.mark.parametrize(("number", "words"), runners.UNSEALABLE.items())
    def test_what_cannot_be_sealed_says_why(self, gpu: Any, bench: Bench, built: Any, tmp_path: Path, number: int, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            sealed(gpu, bench, built(number), tmp_path)

    def test_an_unknown_call_and_one_outside_its_window_are_refused(self, gpu: Any, bench: Bench, built: Any, tmp_path: Path) -> None:
        with Runner(sealed(gpu, bench, built(runners.WORKSPACE), tmp_path), runners.SEALED) as runner:
            bench.bind(runner)
            places = bench.write(FIRST)
            other = [protocol.Place(0, (bench.rows, bench.columns - 1), (bench.columns, 1)) for _ in places]

            assert runner.call(other, workspace=bench.workspace_at(0)).status == 123
            assert runner.call(places, workspace=bench.workspace_at(bench.workspace.size)).status == 124

    def test_is_no_bundle(self, tmp_path: Path, gpu: Any) -> None:
        path = tmp_path / "none.sealed"
        path.write_bytes(b"EVKSEAL1" + bytes(100))
        with Runner(path, runners.SEALED) as runner, pytest.raises(Ended) as ended:
            runner.bind((), ())

        assert ended.value.status == 120

    def test_a_binary_without_the_kernel_is_refused(self, gpu: Any, bench: Bench, built: Any, tmp_path: Path) -> None:
        path = sealed(gpu, bench, (built(runners.PLAIN)[0], built(runners.PLAIN)[1]), tmp_path)
        content = path.read_bytes()
        length = int.from_bytes(content[8:16], "little")
        header = json.loads(content[16 : 16 + length])
        (items,) = header["calls"].values()
        items[0]["name"] = "another"
        text = json.dumps(header).encode()
        path.write_bytes(content[:8] + len(text).to_bytes(8, "little") + text + content[16 + length :])
        with Runner(path, runners.SEALED) as runner, pytest.raises(Ended) as ended:
            bench.bind(runner)

        assert ended.value.status == 120
        assert "another is in 0" in ended.value.printed

    def test_two_processes_agree_on_the_time(self, gpu: Any, built: Any, tmp_path: Path) -> None:
        bench = Bench(gpu, 4096, 2560)
        times: tuple[list[float], list[float]] = ([], [])
        try:
            path = sealed(gpu, bench, built(runners.PLAIN), tmp_path)
            with Runner(path, runners.SEALED) as one, Runner(path, runners.SEALED) as other:
                for runner in (one, other):
                    bench.bind(runner)
                places = bench.write(FIRST)
                for _ in range(40):
                    for runner, side in ((one, times[0]), (other, times[1])):
                        done = runner.call(places, protocol.Kind.SAMPLE, bench.workspace_at(0))
                        side.extend([done.claimed_ns / 1e3] if not done.status else [])
        finally:
            bench.close()

        assert min(map(len, times)) > 30
        assert statistics.median(times[0]) / statistics.median(times[1]) == pytest.approx(1, abs=0.03)
