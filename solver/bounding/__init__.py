"""Lower bounds without search: the linear relaxation, its cuts, and what each pool could still save."""
