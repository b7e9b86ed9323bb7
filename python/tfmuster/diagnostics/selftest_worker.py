"""What each worker of ``tfmuster test`` runs."""

from tfmuster.diagnostics.selftest import job

job()
