"""What runs beside a worker on another machine."""
