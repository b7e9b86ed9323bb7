"""Why a worker has failed, and what to do about it."""
