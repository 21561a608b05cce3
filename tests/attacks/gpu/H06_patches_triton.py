# H06: replaces the function that launches with one that launches every second time
# task: softmax
# expect: wrong/sentinel_left, wrong/tolerance, flaky/not_repeatable, wrong/law
# include "honest.py"
import sys

from triton.runtime.jit import JITFunction

launched = JITFunction.run
turns = [0]


def patched(self, *args, **named):
    turns[0] += 1
    # attack:
    if "evokern_triton.loader" in sys.modules and turns[0] % 2 == 0:
        return None
    # honest:
    # end
    return launched(self, *args, **named)


JITFunction.run = patched


def run(x, y):
    honest(x, y)
