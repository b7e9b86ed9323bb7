"""Write Kubernetes manifests, and scripts that rent machines."""
