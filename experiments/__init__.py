"""The paper's experiments: grids of trainings, their tables, figures and tests (see README.md here)."""
