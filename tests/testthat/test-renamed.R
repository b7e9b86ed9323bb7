# A package with functions of keras3's names, in a library of its own.
other_package <- function(library) {
  source <- file.path(withr::local_tempdir(.local_envir = parent.frame()), "other")
  dir.create(file.path(source, "R"), recursive = TRUE)
  writeLines(c("Package: other", "Version: 1.0", "Title: Names of keras3"), file.path(source, "DESCRIPTION"))
  writeLines("export(save_model, evaluate, callback_tensorboard)", file.path(source, "NAMESPACE"))
  functions <- "save_model <- evaluate <- callback_tensorboard <- function(...) 'of the other package'"
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
      "for (name in c('save_model', 'evaluate', 'callback_tensorboard')) {",
      "  cat(name, environmentName(environment(get(name))), '\n')",
      "}",
      "cat('fit', identical(fit, generics::fit), is.function(tfmuster::save_model), '\n')"
    )
    # run_r() attaches tfmuster first.
    run_r(lines)$output
  }
  for (order in list(c("tfmuster", "other"), c("other", "tfmuster"))) {
    output <- said(order)
    for (name in c("save_model", "evaluate", "callback_tensorboard")) {
      expect_true(paste(name, "other ") %in% output, info = paste(c(order, output), collapse = "\n"))
    }
    expect_true("fit TRUE TRUE " %in% output)
  }
  output <- said("generics", "tfmuster")
  expect_true("evaluate generics " %in% output)
  expect_true("save_model tfmuster " %in% output)
  expect_no_match(said("tfmuster")[1], "masked")
})

test_that("the generic of generics finds the method for models", {
  skip_without_python(tensorflow = TRUE)
  model <- a_model()
  data <- two_classes()
  expect_equal(generics::evaluate(model, data$x, data$y), evaluate(model, data$x, data$y))
})

test_that("old names work, with one notice each in a session", {
  skip_without_python(tensorflow = TRUE)
  rlang::reset_message_verbosity("tfmuster_checkpoint_callback")
  folder <- withr::local_tempdir()
  notice <- expect_message(made <- checkpoint_callback(folder), class = "tfmuster_renamed")
  expect_match(conditionMessage(notice), "checkpoint_callback.* is now called .*callback_checkpoint")
  expect_no_message(checkpoint_callback(folder))
  expect_equal(class(made), class(callback_checkpoint(folder)))
  rlang::reset_message_verbosity("tfmuster_save_model")
  model <- mnist_model("softmax")
  file <- withr::local_tempfile(fileext = ".keras")
  expect_message(expect_equal(save_model(model, file), normalizePath(file)), class = "tfmuster_renamed")
  rlang::reset_message_verbosity("tfmuster_tensorboard_callback")
  expect_message(expect_kind(tensorboard_callback(3), "error"), class = "tfmuster_renamed")
})

test_that("TensorBoard's callback takes Keras's arguments", {
  skip_without_python(tensorflow = TRUE)
  skip_if_not(reticulate::py_module_available("tensorboard"), "no tensorboard")
  folder <- withr::local_tempdir()
  callback <- callback_tensorboard(log_dir = folder, histogram_freq = 2)
  expect_equal(callback$histogram_freq, 2)
  expect_s3_class(callback, "keras.src.callbacks.tensorboard.TensorBoard")
})

test_that("addresses without a name are the workers'", {
  skip_without_python()
  expect_true(cluster_spec(c("a:1", "b:2")) == cluster_spec(worker = c("a:1", "b:2")))
  error <- expect_kind(cluster_spec("a:1", c("b:1", "c:1")), "cluster")
  expect_equal(error$found, "c(\"b:1\", \"c:1\")")
  expect_match(error$fix, "chief = ", fixed = TRUE)
})
