"""The evaluator: verdicts that can be trusted.

One rule carries the rest: **a candidate decides only bytes of declared size, and when they appear.** What it writes is a
claim; what it can read is public. Promised are the verdict and a lower bound of the speed-up.

Processes, one judge a device:

    engine -> judge      keys, clock, windows, verdicts; reads what a candidate wrote as tensors and records of fixed length
      spawner -> zygote -> slot: runner      the only process that holds a candidate's code (`runner`), a fresh one a phase
      judge -> oracle                        the task's reference, believed for values only (`oracle`)
      judge -> baselines                     PyTorch, called under the candidates' own protocol (`baseline`)
      judge -> builder                       compilers, which see the toolchain, the header and one source

Rooms: `call` (one runner and one call), `rule` (whether a kernel is right), `timing` (how long it takes), `reference` (what it is
judged by). Beside them `judge` (the process), `session` (made ready for one task), `ladder` (screen to confirm), `secrecy` (keys),
`catalogue` (where tasks are found), `statement` (what engine and judge say to each other).

Not promised: what a kernel does in a state that no judged call reaches, such as its thousandth call in one process, a time of
day, or a value that no distribution of the task draws (it gains no time by it); gains below the clock's resolution; covert
channels through clocks, heat and caches between candidates in turn; bugs of the kernel and the hardware; who wrote the
mathematics; anything at tier `unsandboxed`.

Nothing is imported here: a runner imports this package, and whatever it imports a candidate can read.
"""
