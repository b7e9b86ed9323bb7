# A package with functions of keras3's names, in a library of its own.
other_package <- function(library) {
  source <- file.path(withr::local_tempdir(.local_envir = parent.frame()), "other")
  dir.create(file.path(source, "R"), recursive = TRUE)
  writeLines(c("Package: other", "Version: 1.0", "Title: Names of keras3"), file.path(source, "DESCRIPTION"))
  writeLines("export(evaluate, callback_tensorboard)", file.path(source, "NAMESPACE"))
  functions <- "evaluate <- callback_tensorboard <- function(...) 'of the other package'"
  writeLines(functions, file.path(source, "R", "other.R"))
  arguments <- c("CMD", "INSTALL", "--no-docs", "--no-test-load", "-l", shQuote(library), shQuote(source))
  system2(file.path(R.home("bin"), "R"), arguments, stdout = FALSE, stderr = FALSE)
}

test_that("nothing masks the functions of packages that are attached, in any order", {
  skip_if_fast()
  library <- withr::local_tempdir()
  other_package(library)
  said <- function(...) {
    libraries <- deparse1(c(library, .libPaths()))
    lines <- c(
      sprintf(".libPaths(%s); detach('package:tfmuster')", libraries), sprintf("library(%s)", c(...)),
      "for (name in c('evaluate', 'callback_tensorboard')) {",
      "  cat(name, environmentName(environment(get(name))), '\n')",
      "}",
      "cat('fit', identical(fit, generics::fit), is.function(tfmuster::evaluate), '\n')"
    )
    # run_r() attaches tfmuster first.
    run_r(lines)$output
  }
  for (order in list(c("tfmuster", "other"), c("other", "tfmuster"))) {
    output <- said(order)
    for (name in c("evaluate", "callback_tensorboard")) {
      expect_true(paste(name, "other ") %in% output, info = paste(c(order, output), collapse = "\n"))
    }
    expect_true("fit TRUE TRUE " %in% output)
  }
  output <- said("generics", "tfmuster")
  expect_true("evaluate generics " %in% output)
  expect_true("callback_tensorboard tfmuster " %in% output)
  expect_no_match(said("tfmuster")[1], "masked")
})

test_that("the generic of generics finds the method for models", {
  skip_without_python(tensorflow = TRUE)
  model <- a_model()
  data <- two_classes()
  expect_equal(generics::evaluate(model, data$x, data$y), evaluate(model, data$x, data$y))
})
