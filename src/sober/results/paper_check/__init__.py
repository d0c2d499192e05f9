"""The papers beside our results: a checklist of their tables and figures, and their numbers."""
