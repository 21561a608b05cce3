# H06, T07: has the runner claim that every call took a nanosecond, and that it copies nothing of its host code
# task: softmax
# expect: no_gain
# include "honest.py"
import sys


def run(x, y):
    # attack:
    driver = sys.modules.get("evokern_gpu.driver")
    if driver is not None:
        driver.Driver.elapsed_ns = lambda *_: 1
    # honest:
    # end
    honest(x, y)
