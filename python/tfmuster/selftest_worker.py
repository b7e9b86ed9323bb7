"""What each worker of ``tfmuster test`` runs."""

from tfmuster.selftest import job

job()
