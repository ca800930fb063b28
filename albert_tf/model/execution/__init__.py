"""How it is computed: `plain` defines it, the rest saves time and memory.

Each measured gain is in the docstring of what brings it.
"""
