# Runs of functions are in the folder of each test, not in the user's cache.
withr::local_options(tfmuster.runs = "runs", .local_envir = teardown_env())
