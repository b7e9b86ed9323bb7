# Every lint of the R code, and every word of R's pages that neither a dictionary nor inst/WORDLIST has.
folders <- Filter(dir.exists, c("R", "tests/testthat", "examples", "scripts"))
lints <- do.call(c, lapply(folders, lintr::lint_dir))
if (length(lints)) {
  for (lint in lints) print(lint)
  quit(status = 1)
}
if (requireNamespace("spelling", quietly = TRUE)) {
  words <- spelling::spell_check_package(".")
  if (nrow(words)) {
    print(words)
    quit(status = 1)
  }
}
cat("lintr: nothing to say about", folders, "\n")
