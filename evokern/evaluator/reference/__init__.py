"""What a kernel is judged by: the task's reference, baselines, sets of inputs, held-out workloads, and whether the task is sound."""
