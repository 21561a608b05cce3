"""Whatever listens: kernels that come from outside, judged by the rules of a run.

A person's coding agent, or a file of kernels, gets what the evolver's own candidates get: the same judge, the same held-out gate of
one bit, the same ledger of bits, the same confirmation. Every kernel and verdict is in the journal as a run's, so `evokern top`,
`show` and `promote` know them; what is told of a kernel is what `evokern eval` tells.

Members:
    bench: `Bench`, one run whose kernels come from outside.
    meter: `Meter`, what a session has used over all of its runs, and what it may use.
    turn: `Turn`, one process of a home judges at a time.
    lock, failure, arguments: locks between processes, failures as answers, arguments checked against a schema.
    contract: a task as whoever writes a kernel for it must know it.
    tools: `Tools`, the questions that a client may ask, without a transport.
    protocol: the Model Context Protocol over these tools; the only module that needs the package `mcp`.
"""
