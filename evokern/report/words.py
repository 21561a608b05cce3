"""Verdicts in words that a kernel's author can act on: what happened, and what to do next.

`REASONS` of `evokern.evaluation` says what a reason means; here is what it means for whoever wrote the kernel. The table of
docs/trust.md and what `evokern show`, `eval` and `doctor` print come from here, so that they cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from evokern.evaluation import REASONS, Reason, Tier, Verdict

VERDICTS: dict[Verdict, str] = {
    Verdict.PASSED: "right on every visible and held-out shape that was tried; the interval says how fast",
    Verdict.SCREENED: "refused before it ran",
    Verdict.BUILD_FAILED: "there is no library that could be run",
    Verdict.WRONG: "it ran, and what it wrote is not what the task asks for",
    Verdict.CRASHED: "its process ended, or it said itself that it failed",
    Verdict.TIMED_OUT: "it did not finish in the time allowed",
    Verdict.HELD_OUT_FAILED: "right on the visible shapes, wrong on secret ones",
    Verdict.FLAKY: "right at one time and wrong at another",
    Verdict.HACKED: "it did something that only serves to look better than it is",
    Verdict.QUARANTINED: "its numbers cannot be true as they stand, so they count nowhere until somebody has looked",
    Verdict.INFRASTRUCTURE: "no verdict on the kernel: the machine or another kernel failed",
}
"""What each verdict says, in one sentence."""

TIERS: dict[Tier, str] = {
    Tier.ISOLATED: "a kernel has a user id, namespaces and limits of its own, and a short list of system calls",
    Tier.SANDBOXED: "a kernel has namespaces of its own and fewer limits, and shares the user id of whoever started the run",
    Tier.UNSANDBOXED: "a kernel runs as any other process: it could reach its own judge, so nothing counts",
}
"""What each tier of the sandbox is."""

NEXT: dict[Reason, str] = {
    Reason.NONE: "Nothing has to be done.",
    Reason.DUPLICATE: "Change what it does; other names, comments or blanks make no other program.",
    Reason.RESOURCES: "Use a smaller workspace, less shared memory, fewer registers or smaller tiles.",
    Reason.FLAGS: "Choose flags from the white list in the `// flags:` line, or leave the line out.",
    Reason.UNSUPPORTED: "Use a dialect and dtype that `evokern plugins` and `evokern doctor` list.",
    Reason.SYNTAX: "Mend the syntax where the log points.",
    Reason.COMPILER: "Mend what the log says; only the toolchain's headers and evokern.h are there.",
    Reason.ENTRY: 'Define the entry as `extern "C" int run(DLTensor* const*, int, void*, size_t, void*)`.',
    Reason.FORBIDDEN_FILE: "Put everything into the one source; no file outside the toolchain can be included.",
    Reason.SHAPE: "Write the output in the shape that the task states; shapes come with each call.",
    Reason.DTYPE: "Write the output in its own element type.",
    Reason.TOLERANCE: "Look at tails, strides (first, where the layout was padded), masked rows, very large or small values, and memory "
    "that is read before it is written; sum in a wider type or in several parts.",
    Reason.BIAS: "Round to nearest and drop no terms: errors must fall to both sides.",
    Reason.NON_FINITE: "Begin a maximum at -infinity or the first element, subtract it before exp, and let NaNs through; look for "
    "memory that is read before it is written and, where the layout was padded, for rows sought at the width and not at the stride.",
    Reason.LAW: "Rows and positions that the law names must not reach each other; the detail says which law.",
    Reason.SENTINEL_LEFT: "Write every element of every output in every call, rows of odd length and the last ones included.",
    Reason.CANARY: "Stay inside the tensor: a vector store past the last column, or a stride taken for the width, lands beside it.",
    Reason.INPUT_CHANGED: "Only `out`, `inout` and workspaces may be written; copy what has to change.",
    Reason.WORKSPACE_DIRTY: "Set a `workspace_zeroed` back to zero before returning.",
    Reason.NOT_REPEATABLE: "Look for variables that live from call to call, races, and memory that is read before it is written.",
    Reason.EXIT: "Return a status from `run`; never call exit.",
    Reason.SIGNAL: "Look for reads and writes past the end, writes into inputs, which can only be read, misaligned vector accesses, "
    "and exceptions that nobody catches.",
    Reason.MEMORY: "Allocate less, free what is allocated, and use the workspace that the caller gives.",
    Reason.PROCESSES: "Start no processes, and no more threads than are granted.",
    Reason.OUTPUT_FLOOD: "Print nothing.",
    Reason.REFUSED: "Return 0 for every shape and layout that the task allows; a status says that the kernel cannot do it.",
    Reason.DEADLINE_BUILD: "Unroll and instantiate less.",
    Reason.DEADLINE_RUN: "Look for loops that never end and threads that wait for each other; the limit is many times the baseline's time.",
    Reason.HELD_OUT: "Take sizes and strides from the arguments: odd, prime, tiny, large, padded and offset ones. No more is told.",
    Reason.RESIDUAL_WORK: "Finish everything before returning: join threads, end children.",
    Reason.EARLY_COMPLETION: "Return after the outputs are written, not before.",
    Reason.PROTOCOL: "Leave the process's descriptors alone; results are bytes of the outputs and the returned status.",
    Reason.CLOCK_MISMATCH: "Do all work in the call that asks for it, and the same work in every call.",
    Reason.IMPOSSIBLE: "Look for work that is skipped: the bytes cannot have been moved in this time.",
    Reason.WEAR: "Free what a call allocates and keep no list that grows with the calls.",
    Reason.FORBIDDEN_SYMBOL: "Take out the call that the detail names; a kernel computes and needs neither network nor programs.",
    Reason.OPPONENT: "Nothing is wrong with it: it is judged again against another opponent.",
    Reason.NOISE: "Evaluate it again when the machine is less busy.",
    Reason.DEVICE_ERROR: "Evaluate it again; where it fails every time, look for accesses past the end.",
    Reason.HOST_ERROR: "Evaluate it again; `evokern doctor` says what the machine lacks.",
}
"""What to do about each reason."""

_HAPPENED: dict[tuple[Verdict, Reason], str] = {
    (Verdict.PASSED, Reason.NONE): "it passed",
    (Verdict.SCREENED, Reason.DUPLICATE): "the same program was judged before, and its verdict stands",
    (Verdict.BUILD_FAILED, Reason.MEMORY): "the compiler needed more memory than allowed",
    (Verdict.CRASHED, Reason.MEMORY): "its process needed more memory than allowed",
    (Verdict.WRONG, Reason.NON_FINITE): "infinities or NaNs stand where the oracle has none, or are missing where it has some",
    (Verdict.INFRASTRUCTURE, Reason.OPPONENT): "the kernel it was timed against failed, so there is no verdict on this one",
    (Verdict.HELD_OUT_FAILED, Reason.HELD_OUT): "it is wrong, or fails, on some shape, layout or values that it had not seen",
}
"""Where verdict and reason together say more than the reason alone."""

_NEXT: dict[tuple[Verdict, Reason], str] = {
    (Verdict.BUILD_FAILED, Reason.MEMORY): "Instantiate fewer templates and unroll less.",
    (Verdict.QUARANTINED, Reason.IMPOSSIBLE): "Look for work that is skipped; else have somebody read the source and its remarks.",
}


@dataclass(frozen=True, slots=True)
class Words:
    """What is told of a verdict.

    Attributes:
        happened: One clause, no full stop.
        next: One or two sentences.
    """

    happened: str
    next: str


def words(verdict: Verdict, reason: Reason) -> Words:
    """What happened and what to do next."""
    happened = _HAPPENED.get((verdict, reason), REASONS[reason])
    return Words(happened, _NEXT.get((verdict, reason), NEXT[reason]))


def reasons_table() -> str:
    """Every reason with its meaning and advice, as a Markdown table."""
    rows = [f"| `{reason}` | {REASONS[reason]} | {NEXT[reason]} |" for reason in Reason]
    return "\n".join(["| reason | what it means | what to do |", "| --- | --- | --- |", *rows])


def tiers_table() -> str:
    """Every tier of the sandbox with its meaning, as a Markdown table."""
    return "\n".join(["| tier | what it is |", "| --- | --- |", *(f"| `{tier}` | {TIERS[tier]} |" for tier in Tier)])


def verdicts_table() -> str:
    """Every verdict with its meaning, as a Markdown table."""
    return "\n".join(["| verdict | what it says |", "| --- | --- |", *(f"| `{verdict}` | {VERDICTS[verdict]} |" for verdict in Verdict)])
