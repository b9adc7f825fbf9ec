"""The parameters of every family that is read, declared layer by layer."""
