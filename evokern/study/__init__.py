"""What is built on the engine's parts: trials of the evaluator itself, and the small tasks that they are made on.

small           a core task with shapes that are judged in about a second
attacks         hostile kernels, each with an honest twin, and what the evaluator makes of them
mutation        other texts of the same program
attack_island   the evolver turned on the evaluator
attack_genome   what it evolves: honest kernels with planted defects
attack_referee  what those that pass do to a user, found out without the evaluator
attack_user     that user, inside a slot
"""
