"""CURIOUS (Colas et al., ICML 2019) in JAX: modular goals, learning progress, one compiled step."""

__version__ = "0.1.0"
