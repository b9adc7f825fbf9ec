"""Exercises of the lessons: specifications with hidden inputs, graded hints, solutions, progress.

Lessons call `wb.check(answer, name)`; importing this package registers every exercise.
"""

from workbench.exercises import alignment, backends, block_tables, counting, flex, layouts, logs
from workbench.exercises.exercise import EXERCISES, Exercise, exercise
from workbench.exercises.kernels import gather, slots

__all__ = ["EXERCISES", "Exercise", "exercise"]
__all__ += [
    "alignment",
    "backends",
    "block_tables",
    "counting",
    "flex",
    "gather",
    "layouts",
    "logs",
    "slots",
]
