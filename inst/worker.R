# What each worker of launch(function) runs.
tfmuster:::work_on_call(sent = commandArgs(TRUE))
