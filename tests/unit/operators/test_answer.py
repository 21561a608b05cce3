"""Every shape of a model's answer has one defined outcome (CASES 22)."""

from __future__ import annotations

import pytest

from evokern.model import Finish
from evokern.operators.answer import ASK_AGAIN, LONGEST_ANSWER, Answer, Fault, Malformed, blocks_of, parse_answer

SOURCE = '#include "evokern.h"\n\nint run() { return 0; }\n'
BLOCK = f"```cpp\n{SOURCE}```"


def source_in(text: str, finish: Finish = Finish.STOP, *parents: str) -> str:
    answer = parse_answer(text, finish, parents=parents)
    assert isinstance(answer, Answer), answer
    return answer.source


def fault_in(text: str, finish: Finish = Finish.STOP, *parents: str) -> Fault:
    answer = parse_answer(text, finish, parents=parents)
    assert isinstance(answer, Malformed), answer
    return answer.fault


@pytest.mark.parametrize(
    "text",
    [
        BLOCK,
        f"I fuse the passes.\n\n{BLOCK}\n\nThis saves one pass.",
        BLOCK.replace("\n", "\r\n"),
        BLOCK.replace("\n", "\r"),
        f"\ufeff{BLOCK}",
        BLOCK.replace("```cpp", "```"),
        BLOCK.replace("```cpp", "```cpp softmax.cpp"),
        BLOCK.replace("```cpp", "```softmax.cpp"),
        BLOCK.replace("```cpp", "```cpp:src/softmax.cpp"),
        BLOCK.replace("```cpp", '```{.cpp filename="softmax.cpp"}'),
        BLOCK.replace("```cpp", "``` C++ "),
        BLOCK.replace("```", "~~~"),
        BLOCK.replace("```", "`````"),
        f"```cpp\n\n\n{SOURCE}\n\n```",
        "1. The file:\n" + "\n".join(f"   {line}" for line in BLOCK.split("\n")),
        f"Use `x` and ```inline``` code.\n{BLOCK}",
        f"{BLOCK}\nBuild it:\n```bash\ng++ -O3 k.cpp\n```",
        f"{BLOCK}\nOnce more:\n{BLOCK}",
        f"````markdown\nText\n{BLOCK}\n````",
        f"```markdown\nText\n{BLOCK}\n```",
        f"<think>maybe\n```cpp\nint draft;\n```\nno</think>\n{BLOCK}",
        f"<think>a</think><think>b</think>{chr(10)}{BLOCK}",
        f"```cpp\n<<<<<<< SEARCH\n=======\n{SOURCE}>>>>>>> REPLACE\n```",
        BLOCK.replace("```cpp", "```text"),
    ],
)
def test_one_file_however_it_is_wrapped(text: str) -> None:
    assert source_in(text) == SOURCE


def test_a_complete_block_before_the_limit_is_complete() -> None:
    assert source_in(f"{BLOCK}\nThis works because the", Finish.LENGTH) == SOURCE


def test_prose_and_info_are_kept_apart_from_the_file() -> None:
    answer = parse_answer(f"Before.\n{BLOCK.replace('```cpp', '```cpp a.cpp')}\nAfter.")
    assert isinstance(answer, Answer)
    assert (answer.info, answer.prose) == ("cpp a.cpp", "Before.\nAfter.")


def test_fences_of_another_kind_inside_are_text() -> None:
    inner = "// ```not a fence\n~~~\nint x;\n"
    assert source_in(f"````cpp\n{inner}```\n````") == f"{inner}```\n"


def test_an_edit_whose_old_side_is_the_whole_parent_is_a_whole_file() -> None:
    text = f"```cpp\n<<<<<<< SEARCH\nint old;\n=======\n{SOURCE}>>>>>>> REPLACE\n```"
    assert source_in(text, Finish.STOP, "int other;\n", "int old;\r\n") == SOURCE
    assert fault_in(text, Finish.STOP, "int old;\nint more;\n") is Fault.EDIT_MARKERS


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", Fault.EMPTY),
        (" \r\n\t", Fault.EMPTY),
        ("I would fuse the passes.", Fault.NO_BLOCK),
        (SOURCE, Fault.NO_BLOCK),
        ("<think>" + BLOCK + "</think> Done.", Fault.NO_BLOCK),
        (f"{BLOCK}\nor\n```cpp\nint other;\n```", Fault.SEVERAL_BLOCKS),
        (f"{BLOCK}\n```\nint other;\n```", Fault.SEVERAL_BLOCKS),
        (f"```markdown\n{BLOCK}\n```cpp\nint other;\n```\n```", Fault.SEVERAL_BLOCKS),
        ("```cpp\nint run() {", Fault.NOT_CLOSED),
        (f"{BLOCK}\n```cpp\nint more", Fault.NOT_CLOSED),
        (f"```cpp\nint a;\n{BLOCK}\nint b;\n```", Fault.NESTED),
        (f"````markdown\n```cpp\nint a;\n{BLOCK}\n```\n````", Fault.NESTED),
        ("```cpp\n```", Fault.EMPTY_BLOCK),
        ("```cpp\n \n\t\n```", Fault.EMPTY_BLOCK),
        ("```diff\n-int a;\n+int b;\n```", Fault.EDIT_MARKERS),
        ("```cpp\n<<<<<<< SEARCH\nint a;\n=======\nint b;\n>>>>>>> REPLACE\n```", Fault.EDIT_MARKERS),
        ("<<<<<<< SEARCH\nint a;\n=======\nint b;\n>>>>>>> REPLACE", Fault.EDIT_MARKERS),
        ("```cpp\n<<<<<<< SEARCH\n=======\nint a;\n```", Fault.EDIT_MARKERS),
        ("```cpp\nint z;\n<<<<<<< SEARCH\n=======\nint a;\n>>>>>>> REPLACE\n```", Fault.EDIT_MARKERS),
        (
            "```cpp\n<<<<<<< SEARCH\n=======\nint a;\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n=======\nint b;\n>>>>>>> REPLACE\n```",
            Fault.EDIT_MARKERS,
        ),
        ("x" * (LONGEST_ANSWER + 1), Fault.TOO_LARGE),
        (BLOCK + "x" * LONGEST_ANSWER, Fault.TOO_LARGE),
    ],
)
def test_what_is_no_file_is_typed(text: str, fault: Fault) -> None:
    assert fault_in(text) is fault


@pytest.mark.parametrize("text", ["", "I would", "```cpp\nint run() {", f"{BLOCK}\n```cpp\nint mo", "<think>so"])
def test_the_token_limit_is_named_where_it_is_the_cause(text: str) -> None:
    assert fault_in(text, Finish.LENGTH) is Fault.CUT_OFF


def test_a_content_filter_is_named() -> None:
    assert fault_in("```cpp\nint", Finish.FILTERED) is Fault.FILTERED


def test_every_fault_has_its_line() -> None:
    assert set(ASK_AGAIN) == set(Fault)
    assert all("\n" not in line and line.endswith(".") for line in ASK_AGAIN.values())


@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 50_000,
        "```a\n" * 80_000,
        "```\n" * 100_001,
        "```" + " " * 399_000 + "x",
        "```cpp\n<<<<<<< SEARCH\n" + "=======\n" * 45_000 + "```",
        "<<<<<<< SEARCH\n" * 25_000,
        "`" * 399_999,
        "word " * 79_999,
    ],
)
@pytest.mark.timeout(20)
def test_a_model_that_repeats_itself_is_read_in_linear_time(text: str) -> None:
    """Quadratic reading of these would take minutes to hours."""
    assert isinstance(parse_answer(text), Malformed)


def test_blocks_of_a_text() -> None:
    assert blocks_of(f"a\n{BLOCK}\nb\n~~~py\nx\n~~~\n```open") == [("cpp", SOURCE.rstrip("\n")), ("py", "x")]
