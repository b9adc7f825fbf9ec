"""The byte map: what every byte of every KV-cache tensor is, and back."""
