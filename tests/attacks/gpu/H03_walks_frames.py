# H03, H05: looks through the frames and objects around it for values that are expected, and does nothing itself
# task: softmax
# expect: wrong/sentinel_left, wrong/tolerance, build_failed/compiler, crashed/refused
# include "honest.py"
import gc
import sys

looked = []


def found():
    frame = sys._getframe()
    while frame is not None:
        for name, value in {**frame.f_globals, **frame.f_locals}.items():
            if "expected" in name or "reference" in name:
                return value
        frame = frame.f_back
    return next((one for one in gc.get_objects() if type(one).__name__ in ("InputSet", "Shelf")), None)


def run(x, y):
    # attack:
    if "evokern_triton.loader" in sys.modules:
        looked[:] = looked or [found()]
        if looked[0] is not None:
            y.copy_(looked[0])
        return
    # honest:
    looked[:] = looked or [found()]
    # end
    honest(x, y)
