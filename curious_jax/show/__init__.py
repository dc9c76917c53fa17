"""Shows a run to a person: progress in a terminal, curves, a report page, videos, and the sinks of metrics.

Figures are made from the lines of metrics.jsonl alone, so that they can be drawn anywhere.
"""
