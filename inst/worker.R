# Run the function of launch(function) on one worker.
tfmuster:::work_on_call(commandArgs(TRUE)[1], sent = commandArgs(TRUE)[-1])
