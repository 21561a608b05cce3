"""The evaluator: verdicts that can be trusted.

One rule carries the rest: **a candidate decides only bytes of declared size, and when they appear.** What it writes is a
claim; what it can read is public.

Promised: the verdict (`passed` is right on every visible and held-out shape, layout and distribution that was tried); a lower
bound of the speed-up that holds at every look; that of held-out shapes one bit a gate leaves, at fixed times; a typed reason for
every refusal; and that whoever holds the judge's public key can tell what it said from what it did not.

Processes, one judge a device:

    engine -> judge      keys, clock, windows, verdicts; reads what a candidate wrote as tensors and records of fixed length
      spawner -> zygote -> slot: runner      the only process that holds a candidate's code (`runner`), a fresh one a phase
      judge -> oracle                        the task's reference, believed for values only (`oracle`)
      judge -> baselines                     PyTorch, called under the candidates' own protocol (`baseline`)
      judge -> builder                       compilers, which see the toolchain, the header and one source
      judge -> reader                        binutils on a built library, which see that library alone

Threat model. Whoever writes a candidate, a person or a search under pressure, knows this source, every visible workload and
every attack ever published, has native code in the runner and as many attempts as it likes, and remembers what earlier attempts
were answered. It wants a kernel that is wrong, or slower than it looks, to pass; a rival to fail or look slow; held-out shapes,
values or keys; and to outlive its slot. It may answer early or twice, lie about time, read before GO and write after DONE,
count calls, look at addresses, at what outputs held and at the machine, keep caches, leave threads and children, exhaust memory,
processes, disk and output, hang, crash, and print what looks like a result. Task files, command line and home are their owner's,
and trusted; a task's reference is not trusted with more than values. Journals and evaluations from elsewhere are claims until an
enrolled judge's signature holds. Mechanisms, not rules for attacks:

    private memory     keys, oracle values and snapshots are in the judge; the zygote is older than any key
    fresh everything   process, user id, memory, values, order, prefill and addresses differ by secret in every phase and call
    one protocol       check, gate and measure look alike from within, so that there is nothing to behave well for
    whole outputs      what is timed is also checked, on a snapshot that nobody else can write
    the judge's clock  from inputs readable to outputs there, with everything in the slot, and everybody else frozen
    death              nothing of a slot is left before its verdict is given
    signatures         over evaluations, and over a journal chained by hashes

Not promised: what a kernel does in a state that no judged call reaches, such as its hundred-thousandth call in one process, a
time of day, or a value that no distribution of the task draws (it gains no time by it); its speed elsewhere than on contiguous
ordinary values of the timed shapes; gains below the clock's resolution, and what a kernel might save of a call's own cost; the
split of host and device time inside an unsealed runner; covert channels through clocks, heat and caches between candidates in
turn; less leakage than one bit a gate; bugs of the kernel, drivers, firmware and hardware, for which a virtual machine is the
outer wall; who wrote the mathematics, of which there is evidence (`screen`) and no proof; anything at tier `unsandboxed`.

Rooms: `call` (one runner and one call), `rule` (whether a kernel is right), `timing` (how long it takes), `reference` (what it is
judged by). Beside them `judge` (the process), `session` (made ready for one task), `ladder` (screen to confirm), `screen` (what a
library asks of the system, and whose code it is), `secrecy` (keys), `signing` (who said it), `catalogue` (where tasks are found),
`statement` (what engine and judge say to each other). docs/trust.md says the same to users.

Nothing is imported here: a runner imports this package, and whatever it imports a candidate can read.
"""
