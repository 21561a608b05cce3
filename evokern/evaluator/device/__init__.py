"""What differs where kernels run on a device with memory of its own: windows, the clock, and sealed replay.

Rules, ladder and statistics are those of the host. PyTorch is imported where it is used: the judge alone holds it, for copies and
comparisons in its own context.
"""
