# Every lint of the R code; any is a failure.
folders <- Filter(dir.exists, c("R", "tests/testthat", "examples", "scripts"))
lints <- do.call(c, lapply(folders, lintr::lint_dir))
if (length(lints)) {
  for (lint in lints) print(lint)
  quit(status = 1)
}
cat("lintr: nothing to say about", folders, "\n")
