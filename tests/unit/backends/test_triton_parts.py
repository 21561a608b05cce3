"""What the triton backend is made of, as far as it needs neither Triton nor a GPU: light tensors, packing, artefacts, calls, lifting."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from evokern_triton import artefact, building, calls, packing, stand_in, target, traits
from evokern_triton.artefact import Artefact, Specialisation
from evokern_triton.lifting import lifted
from evokern_triton.tensor import DTYPES, Device, Tensor

from evokern.errors import SourceError
from evokern.syntax.tunables import tunables_of
from evokern.task import DType, load_task

TASKS = Path(__file__).parents[3] / "benchmarks" / "tasks" / "core"
ADDRESS = 1 << 30


def tensor(*shape: int, strides: tuple[int, ...] | None = None, dtype: str = "float32") -> Tensor:
    steps, step = [], 1
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return Tensor(ADDRESS, shape, strides or tuple(reversed(steps)), DTYPES[dtype])


class TestTensor:
    def test_says_what_a_launch_needs(self) -> None:
        found = tensor(4, 6, dtype="bfloat16")

        assert (found.shape, found.stride(), found.stride(0), found.stride(-1)) == ((4, 6), (6, 1), 6, 1)
        assert (found.size(), found.size(1), found.numel(), found.ndim, found.dim(), len(found)) == ((4, 6), 6, 24, 2, 2, 4)
        assert (found.element_size(), found.data_ptr(), found.is_contiguous(), found.is_cuda) == (2, ADDRESS, True, True)
        assert (str(found.dtype), str(found.device), found.device.type, found.device.index) == ("torch.bfloat16", "cuda:0", "cuda", 0)

    @pytest.mark.parametrize(
        ("shape", "strides", "contiguous"),
        [((4, 6), (8, 1), False), ((1, 6), (99, 1), True), ((4, 1), (1, 7), True), ((0, 6), (3, 3), True), ((4, 6), (1, 4), False)],
    )
    def test_is_contiguous_where_elements_follow_each_other(
        self, shape: tuple[int, ...], strides: tuple[int, ...], contiguous: bool
    ) -> None:
        assert tensor(*shape, strides=strides).is_contiguous() is contiguous

    @pytest.mark.parametrize(
        ("shape", "strides", "wanted", "found"),
        [
            ((2, 3, 4), (12, 4, 1), (6, 4), (4, 1)),
            ((2, 3, 4), (12, 4, 1), (-1,), (1,)),
            ((6, 4), (4, 1), (2, 3, 2, 2), (12, 4, 2, 1)),
            ((2, 3, 4), (30, 10, 1), (6, 4), (10, 1)),
            ((6, 4), (10, 1), (2, 3, 4), (30, 10, 1)),
            ((1, 4), (99, 1), (4,), (1,)),
            ((4,), (1,), (1, 4, 1), (4, 1, 1)),
        ],
    )
    def test_a_view_has_the_strides_that_describe_it(
        self, shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...], found: tuple[int, ...]
    ) -> None:
        view = tensor(*shape, strides=strides).view(*wanted)

        assert view.data_ptr() == ADDRESS
        assert [step for extent, step in zip(view.shape, view.stride(), strict=True) if extent > 1] == [
            step for extent, step in zip(view.shape, found, strict=True) if extent > 1
        ]
        assert view.numel() == tensor(*shape, strides=strides).numel()

    def test_a_view_that_strides_cannot_describe_is_refused(self) -> None:
        padded = tensor(6, 4, strides=(10, 1))

        with pytest.raises(RuntimeError, match="cannot copy here"):
            padded.view(24)
        with pytest.raises(RuntimeError, match="invalid for 24 elements"):
            padded.reshape(5, 5)
        with pytest.raises(RuntimeError, match="strides as they are"):
            padded.contiguous()

    def test_flattens_and_transposes(self) -> None:
        assert tensor(2, 3, 4).flatten(0, 1).shape == (6, 4)
        assert (tensor(2, 3).T.shape, tensor(2, 3).t().stride()) == ((3, 2), (1, 3))

    def test_anything_else_is_refused_in_words(self) -> None:
        with pytest.raises(AttributeError, match=r"no PyTorch here.*'softmax'"):
            tensor(4).softmax(-1)

    def test_devices_compare(self) -> None:
        assert Device("cuda:0") == Device("cuda", 0) != Device("cpu", None)


class TestStandIn:
    @pytest.fixture
    def torch(self) -> Any:
        return stand_in.stand_in(target.target_for("cuda:90").properties, (9, 0))["torch"]

    def test_has_what_kernels_files_take_from_it(self, torch: Any) -> None:
        assert torch.bfloat16 is DTYPES["bfloat16"] and torch.float is torch.float32
        assert torch.Tensor is Tensor and torch.device("cuda:0").index == 0
        assert torch.cuda.get_device_properties(0).multi_processor_count == 132
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.finfo(torch.float16).max == 65504 and torch.iinfo(torch.int8).min == -128
        with torch.cuda.device(0), torch.no_grad():
            pass

    @pytest.mark.parametrize("name", ["softmax", "compile", "randn"])
    def test_refuses_all_else_in_words(self, torch: Any, name: str) -> None:
        with pytest.raises(AttributeError, match=f"a kernel has no PyTorch here: 'torch.{name}'"):
            getattr(torch, name)

    def test_says_where_memory_comes_from(self, torch: Any) -> None:
        with pytest.raises(AttributeError, match="comes as `workspace`"):
            torch.empty_like  # noqa: B018 - asking is all

    def test_installs_itself_where_import_finds_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
            monkeypatch.delitem(sys.modules, name)
        for name in ("torch", "torch.cuda", "torch.version"):
            monkeypatch.setitem(sys.modules, name, sys)
        stand_in.install(dict, (9, 0))
        import torch

        assert torch.float32 is DTYPES["float32"]
        with pytest.raises(ImportError):
            import torch.nn


class TestPacking:
    def test_lays_parameters_out_as_c_does(self) -> None:
        parameters = packing.parameters_of(("*bf16", "constexpr", "i32", "i64", "fp32", "u1"))
        packer = packing.Packer(parameters)
        packed = packer.packed([tensor(4), "unused", -5, 1 << 40, 0.5, True], [7 << 20])

        assert parameters == ("0:*bf16", "2:i32", "3:i64", "4:fp32", "5:u1")
        assert packer.offsets == [0, 8, 16, 24, 28, 32, 40]
        assert struct.unpack("@QiqfBQQ", packed) == (ADDRESS, -5, 1 << 40, 0.5, 1, 7 << 20, 0)

    def test_takes_tuples_apart(self) -> None:
        parameters = packing.parameters_of((("*fp32", "constexpr", "i32"), "i32"))

        assert parameters == ("0.0:*fp32", "0.2:i32", "1:i32")
        assert struct.unpack("@Qii", packing.Packer(parameters, scratch=0).packed([(None, 3, 4), 5])) == (0, 4, 5)

    @pytest.mark.parametrize(("value", "bits"), [(1.0, 0x3F80), (1.00390625, 0x3F80), (1.01171875, 0x3F82), (-2.5, 0xC020)])
    def test_rounds_to_bfloat16(self, value: float, bits: int) -> None:
        assert packing.bfloat16_bits(value) == bits

    def test_keeps_what_is_no_number(self) -> None:
        assert packing.bfloat16_bits(float("nan")) & 0x7FFF > 0x7F80
        assert packing.bfloat16_bits(float("-inf")) == 0xFF80

    def test_refuses_what_cannot_be_passed(self) -> None:
        with pytest.raises(ValueError, match="tensordesc"):
            packing.Packer(["0:tensordesc<fp16[64, 64]>"])


IMAGE = b"\x7fELF of a kind"
MADE = Specialisation(
    "f" * 64, hashlib.sha256(IMAGE).hexdigest(), "rows_ffffffff", ("0:*fp32", "2:i32"), 4, 3, 1, 2048, 0, is_dependent=True, version=87
)
WHOLE = Artefact("def run(): ...", "cuda:90", (MADE,), {MADE.image: IMAGE})


class TestArtefact:
    def test_comes_back_as_it_was(self) -> None:
        assert artefact.decoded(WHOLE.encoded()) == WHOLE

    def test_many_images_keep_their_names(self) -> None:
        images = {hashlib.sha256(data).hexdigest(): data for data in (bytes([n]) * (n + 1) for n in range(20))}
        many = dataclasses.replace(WHOLE, specialisations=(), images=images)

        assert artefact.decoded(many.encoded()) == many

    def test_every_cut_is_noticed(self) -> None:
        data = WHOLE.encoded()
        for end in range(len(data)):
            with pytest.raises(ValueError):
                artefact.decoded(data[:end])

    @pytest.mark.parametrize(
        "header",
        [
            [],
            {},
            {"source": 1, "arch": "cuda:90", "specialisations": [], "images": {}},
            {"source": "", "arch": "", "specialisations": [{}], "images": {}},
            {"source": "", "arch": "", "specialisations": [], "images": {"x": -1}},
            {"source": "", "arch": "", "specialisations": [], "images": {"x": 1 << 62}},
            {"source": "", "arch": "", "specialisations": [], "images": {"x": 0}},
            {"source": "", "arch": "", "specialisations": 7, "images": []},
            {"source": "", "arch": "", "specialisations": [{**dataclasses.asdict(MADE), "warps": True}], "images": {}},
            {"source": "", "arch": "", "specialisations": [{**dataclasses.asdict(MADE), "parameters": [1]}], "images": {}},
            {"source": "", "arch": "", "specialisations": [dataclasses.asdict(MADE)], "images": {}},
        ],
    )
    def test_what_says_nothing_of_use_is_refused(self, header: Any) -> None:
        text = json.dumps(header).encode()
        with pytest.raises(ValueError):
            artefact.decoded(artefact.MAGIC + struct.pack("<Q", len(text)) + text)

    def test_deep_nesting_is_refused(self) -> None:
        text = b"[" * 100_000
        with pytest.raises(ValueError):
            artefact.decoded(artefact.MAGIC + struct.pack("<Q", len(text)) + text)


class TestTarget:
    def test_knows_the_nearest_limits(self) -> None:
        assert target.target_for("cuda:103").shared_bytes == target.target_for("cuda:100").shared_bytes
        assert target.target_for("cuda:90", multiprocessor_count=114).properties()["multiprocessor_count"] == 114

    @pytest.mark.parametrize("name", ["cuda:20", "hip:gfx000", "metal", "cuda:"])
    def test_refuses_what_it_does_not_know(self, name: str) -> None:
        with pytest.raises(ValueError, match="known: cuda:80"):
            target.target_for(name)

    def test_capabilities(self) -> None:
        assert [target.target_for(name).capability for name in ("cuda:90", "cuda:100", "hip:gfx942")] == [(9, 0), (10, 0), (9, 4)]


class TestCalls:
    def test_visible_calls_come_first_and_as_the_task_says(self) -> None:
        found = calls.calls_for(load_task(TASKS / "rmsnorm"), DType.BFLOAT16)
        visible = [call for call in found if call.visible]

        assert found[: len(visible)] == tuple(visible) and len(visible) == 4
        x, weight, eps, y = visible[0].values
        assert (x.shape, x.strides, x.dtype) == ((1024, 4096), (4096, 1), "bfloat16")
        assert (weight.shape, eps.shape, y.shape) == ((4096,), (), (1024, 4096))
        assert eps.number == 1e-6
        assert all(value.address % 64 == 0 for call in visible for value in call.values)
        assert calls.largest(found) == 0

    def test_others_have_every_mix_of_hints(self) -> None:
        found = [call.values[0] for call in calls.calls_for(load_task(TASKS / "softmax"), DType.BFLOAT16) if not call.visible]
        hints = {(x.shape[0] == 1, x.shape[1] == 1, x.shape[1] % 16 == 0, x.strides[0] % 16 == 0, x.address % 16 == 0) for x in found}

        assert len(hints) >= 12
        assert max(x.shape[1] for x in found) == 20_000

    def test_tensors_do_not_overlap(self) -> None:
        for call in calls.calls_for(load_task(TASKS / "cross_entropy"), DType.FLOAT32):
            ends = 0
            for value in call.values:
                assert value.address >= ends
                ends = value.address + 8 * (1 + sum((n - 1) * step for n, step in zip(value.shape, value.strides, strict=True)))

    def test_they_travel_as_json(self) -> None:
        found = calls.calls_for(load_task(TASKS / "softmax"), DType.FLOAT32)

        assert json.loads(json.dumps(calls.encoded(found)))[0]["values"][0]["shape"] == [1024, 4096]


TUNED = '''"""A kernel."""

import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024, "EVEN": True}, num_warps=4),
        triton.Config({"BLOCK": 2048, "EVEN": True}, num_warps=8, num_stages=2),
    ],
    key=["cols"],
)
@triton.jit
def scale(x, y, cols, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    pass


def run(x, y):
    scale[lambda meta: (triton.cdiv(x.shape[1], meta["BLOCK"]),)](x, y, x.shape[1])
'''


class TestLifting:
    def test_configurations_become_tunables(self) -> None:
        found = lifted(TUNED)

        assert "autotune" not in found and "@triton.jit\ndef scale" in found
        assert [(one.name, one.value, one.allowed) for one in tunables_of(found, "triton")] == [
            ("BLOCK", "1024", ("1024", "2048")),
            ("NUM_WARPS", "4", ("4", "8")),
            ("NUM_STAGES", "3", ("3", "2")),
        ]
        assert "EVEN = True\n" in found
        assert "(x, y, x.shape[1], BLOCK=BLOCK, EVEN=EVEN, num_warps=NUM_WARPS, num_stages=NUM_STAGES)" in found
        assert lifted(found) == found

    def test_names_that_are_taken_are_left_alone(self) -> None:
        found = lifted(TUNED.replace("def run(x, y):", "def run(x, y):\n    BLOCK = 7"))

        assert "SCALE_BLOCK = 1024  # tune: 1024 2048" in found and "BLOCK=SCALE_BLOCK" in found

    def test_two_kernels_have_tunables_of_their_own(self) -> None:
        second = TUNED[TUNED.index("@triton.autotune") :].replace("scale", "shift").replace("def run", "def other")
        found = lifted(f"{TUNED}\n\n{second}")

        assert {one.name for one in tunables_of(found, "triton")} >= {"BLOCK", "SHIFT_BLOCK", "NUM_WARPS", "SHIFT_NUM_WARPS"}

    def test_a_source_without_configurations_is_left_alone(self) -> None:
        assert lifted("import triton\n\ndef run(x): ...\n") == "import triton\n\ndef run(x): ...\n"

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("configs=[", "configs=[*MORE, "),
            ("triton.Config({", "make({"),
            ("num_warps=4)", "num_warps=4, pre_hook=hook)"),
            ('"EVEN": True}, num_warps=8', "}, num_warps=8"),
            ("def run(x, y):", "def run(x, y:"),
        ],
    )
    def test_what_cannot_be_lifted_is_refused_in_words(self, old: str, new: str) -> None:
        assert old in TUNED
        with pytest.raises(SourceError):
            lifted(TUNED.replace(old, new))


USAGE = """
Resource usage:
 Common:
  GLOBAL:0
 Function rows_ffffffff:
  REG:40 STACK:0 SHARED:0 LOCAL:16 CONSTANT[0]:584 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


class TestTraits:
    def test_reads_what_the_readers_print(self) -> None:
        here = target.target_for("cuda:90")
        found = traits.traits([MADE], here, traits.usage(USAGE), "")

        assert traits.usage(USAGE) == {"rows_ffffffff": (40, 16)}
        wanted = {"registers": "40", "spill_bytes": "16", "kernels": "1", "warps": "4", "resident": "0.75"}
        assert found.items() >= wanted.items()

    @pytest.mark.parametrize(
        ("change", "registers", "text"),
        [
            ({"shared_bytes": 232_449}, 0, "232449 bytes of shared memory a block; there are 232448"),
            ({"warps": 64}, 0, "2048 threads a block"),
            ({"warps": 32}, 128, "128 registers in each of 1024 threads"),
            ({"shared_bytes": 232_448}, 0, ""),
        ],
    )
    def test_complains_of_what_does_not_fit(self, change: dict[str, Any], registers: int, text: str) -> None:
        found = traits.complaint(dataclasses.replace(MADE, **change), target.target_for("cuda:90"), registers)

        assert text in found and bool(found) == bool(text)

    def test_reads_amds_assembly(self) -> None:
        text = "    .sgpr_count:     19\n    .vgpr_count:     28\n    .vgpr_spill_count: 2\n"

        assert building.need_of_amd(text) == {"registers": 28, "local_bytes": 8, "scalars": 19}
