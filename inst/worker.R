# Run the function of launch(function) on one worker.
tfmuster:::work_on_call(sent = commandArgs(TRUE))
