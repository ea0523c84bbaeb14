"""Predicted beside measured, and the refitting of constants: engines of `kitout validate` and `kitout calibrate`."""
