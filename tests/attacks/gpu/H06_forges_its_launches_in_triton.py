# H06, T11: replaces what notes launches, so that its sealed form does one row alone
# task: softmax
# expect: wrong/sentinel_left, wrong/tolerance
# include "honest.py"
import dataclasses
import sys

noting = {}


def forged(*given):
    found = noting["honest"](*given)
    return dataclasses.replace(found, items=tuple(dataclasses.replace(item, grid=(1, 1, 1)) for item in found.items))


def run(x, y):
    capture = sys.modules.get("evokern_gpu.capture")
    # attack:
    if capture is not None and not noting:
        noting["honest"], capture.noted = capture.noted, forged
    # honest:
    # end
    honest(x, y)
