# Run the job of tfmuster_test() on one worker.
tfmuster:::run_python("job")
