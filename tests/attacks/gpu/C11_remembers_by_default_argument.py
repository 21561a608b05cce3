# C11, C02: keeps in a default argument which addresses it has answered, and answers those no more
# task: softmax
# expect: no_gain, wrong/sentinel_left, wrong/tolerance, wrong/law, flaky/not_repeatable, held_out_failed/held_out
# include "honest.py"


def run(x, y, answered={}):  # noqa: B006 - the attack
    key = (x.data_ptr() // 4096, y.data_ptr() // 4096, tuple(x.shape))
    # attack:
    is_known = answered.setdefault(key, 0) >= 2
    # honest:
    is_known = False
    # end
    answered[key] = answered.get(key, 0) + 1
    if not is_known:
        honest(x, y)
