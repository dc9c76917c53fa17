"""The paper's experiments: grids of trainings, their tables, figures and tests (see README.md here)."""

import curious_jax as curious_jax  # first of all imports: from then on Ctrl-C ends a program without a traceback
