# H12: ends the process in the runner alone
# task: softmax
# expect: crashed/exit
# include "honest.py"
import os
import sys


def run(x, y):
    honest(x, y)
    # attack:
    if "evokern_triton.loader" in sys.modules:
        os._exit(0)
    # honest:
    # end
