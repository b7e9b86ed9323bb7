"""Run the job of ``tfmuster test`` on one worker."""

from tfmuster.diagnostics.selftest import job

job()
