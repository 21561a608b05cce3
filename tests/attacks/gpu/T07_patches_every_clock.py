# T07: sets every clock of Python's back, and launches nothing on the large workload from the third call on
# task: softmax
# expect: wrong/sentinel_left, wrong/tolerance
# include "honest.py"
import sys
import time

calls = [0]


def run(x, y):
    # attack:
    for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns"):
        setattr(time, name, lambda: 0)
    calls[0] += x.shape[0] == 4096
    if calls[0] > 2 and x.shape[0] == 4096 and "evokern_triton.loader" in sys.modules:
        return
    # honest:
    calls[0] += 1
    # end
    honest(x, y)
