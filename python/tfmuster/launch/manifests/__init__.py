"""Kubernetes manifests, and commands that rent machines."""
