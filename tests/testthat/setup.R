# Runs of functions are in the folder of each test, not in the user's cache, and the list of runs is not the
# user's. A strategy of several workers outside of a job would start TensorFlow's server in this session.
withr::local_envvar(XDG_STATE_HOME = tempfile("state"), TFMUSTER_STRICT = "1", .local_envir = teardown_env())
withr::local_options(tfmuster.runs = "runs", .local_envir = teardown_env())
