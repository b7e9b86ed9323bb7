"""Diagnose this machine: the doctor, the self-test, and tuning."""
