"""The least that a command for rented machines needs to know."""

from __future__ import annotations

from typing import Any

URL = "https://example.org/tfmuster.tar.gz"
GCE: dict[str, Any] = {"name": "digits", "workers": 3, "source": URL, "zone": "europe-west2-a"}
EC2: dict[str, Any] = {"name": "digits", "workers": 3, "source": URL}

WORDS = ["zone", "project", "network", "machine_type", "image", "image_project", "accelerator"]
