test_that("every exported function is called in an example", {
  folder <- withr::local_tempdir()
  # In R CMD check, only the installed package is there; without it, one may be installed without its manual.
  source <- normalizePath(file.path("..", ".."))
  in_source <- file.exists(file.path(source, "man", "launch.Rd"))
  pages <- if (in_source) tools::Rd_db(dir = source) else tools::Rd_db("tfmuster")
  code <- unlist(lapply(pages, function(page) {
    file <- file.path(folder, "example.R")
    tools::Rd2ex(page, file, commentDontrun = FALSE, commentDonttest = FALSE)
    if (file.exists(file)) {
      on.exit(unlink(file))
      all.names(parse(file), unique = TRUE)
    }
  }))
  expect_gt(length(code), 100)
  expect_setequal(setdiff(getNamespaceExports("tfmuster"), code), character())
})
