# What each worker of tfmuster_test() runs.
tfmuster:::run_python("job")
