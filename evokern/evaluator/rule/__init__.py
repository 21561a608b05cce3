"""Whether a kernel is right: the rule for values, the calls of check and gate, what a task's laws ask."""
