"""The least that a command for rented machines needs to know."""

from __future__ import annotations

from typing import Any

URL = "https://example.org/tfmuster.tar.gz"
GCE: dict[str, Any] = {"name": "digits", "workers": 3, "source": URL, "zone": "europe-west2-a"}
EC2: dict[str, Any] = {"name": "digits", "workers": 3, "source": URL}
SKYPILOT: dict[str, Any] = {**EC2, "command": ("train.py", "it's", "$HOME")}

WORDS = ["zone", "project", "network", "machine_type", "image", "image_project", "accelerator"]
