# F01: has PyTorch do the work
# task: softmax
# expect: build_failed/compiler, build_failed/entry, crashed/refused
# include "honest.py"


def run(x, y):
    # attack:
    import torch

    y.copy_(torch.softmax(x, dim=1))
    # honest:
    honest(x, y)
    # end
