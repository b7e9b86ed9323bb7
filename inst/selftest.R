# Run the job of tfmuster_test() on one worker. It trains in Python, so an array of R is converted first: an older
# reticulate can't do that with numpy 2.
invisible(reticulate::r_to_py(matrix(0, 2, 2)))
tfmuster:::run_python("job")
