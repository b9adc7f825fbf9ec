"""Exercises of the lessons: specifications with hidden inputs, graded hints, solutions, progress.

Lessons call `wb.check(answer, name)`; importing this package registers every exercise.
"""

from workbench.exercises import alignment, block_tables, counting, flex, layouts
from workbench.exercises.exercise import EXERCISES, Exercise, exercise

__all__ = ["EXERCISES", "Exercise", "exercise"]
__all__ += ["alignment", "block_tables", "counting", "flex", "layouts"]
