test_that("R functions and their Python twins take the same arguments with the same defaults", {
  skip_without_python(tensorflow = TRUE)
  inspect <- reticulate::import("inspect", convert = FALSE)
  modules <- list(
    strategies = "strategy", datasets = c("mnist", "synthetic"), models = "mnist_model", training = "train_mnist",
    check = "check_cluster", tf_config = c("tf_config_json", "use_tf_config", "parse_tf_config"),
    artifacts = c("save_model", "model_to_bytes", "model_from_bytes", "save_model_file"), launch = "launch"
  )
  twins <- rlang::set_names(rep(names(modules), lengths(modules)), unlist(modules))
  for (twin in names(twins)) {
    module <- reticulate::import(paste0("tfmuster.", twins[[twin]]), convert = FALSE)
    parameters <- inspect$signature(module[[twin]])$parameters
    names <- reticulate::py_to_r(reticulate::import_builtins(FALSE)$list(parameters))
    # R has one place for further arguments.
    names[names == "args"] <- "..."
    r <- formals(get(twin))
    expect_setequal(!!names(r), !!names)
    for (name in setdiff(intersect(names, names(r)), "...")) {
      python <- reticulate::py_to_r(parameters[[name]]$default)
      if (!is.environment(python) && is.atomic(python) && length(python) > 0) {
        expect_equal(eval(r[[name]]), python, info = paste(twin, name), ignore_attr = TRUE)
      }
    }
  }
})

test_that("a core of another version is refused", {
  expect_snapshot(check_versions("0.1.0", "0.2.0"), error = TRUE)
  error <- expect_kind(check_versions("0.1.0", package_version("0.2.0")), "dependency")
  expect_equal(error$package, "tfmuster")
  expect_null(check_versions("0.1.0", package_version("0.1.0")))
})

test_that("no Python is an error that says what to do", {
  expect_snapshot(abort_no_python(simpleError("could not find a Python {environment}"), NULL), error = TRUE)
})

test_that("other Python exceptions and R's own braces come through as they are", {
  skip_without_python()
  expect_error(run_python("errors.no_such_name"), "no_such_name")
  error <- expect_kind(abort_tfmuster(list(kind = "data", message = "a {b} {{c}} <d>", found = "{", path = "p")), "data")
  expect_match(conditionMessage(error), "a {b} {{c}} <d>", fixed = TRUE)
  expect_equal(error$path, "p")
  expect_equal(error$found, "{")
})

test_that("a missing Python package is an error that names it", {
  skip_without_python()
  run <- run_r(c(
    "sys <- reticulate::import('sys'); main <- reticulate::py_run_string(\"import sys; sys.modules['yaml'] = None\")",
    "file <- tempfile(fileext = '.yaml'); writeLines('worker: [\"a:1\"]', file)",
    "e <- tryCatch(cluster_from_file(file), error = identity)",
    "cat(class(e)[1], e$package)"
  ))
  expect_match(run$output, "tfmuster_error_dependency yaml", all = FALSE)
})

test_that("whole doubles become integers, and nothing else changes", {
  expect_identical(as_whole(3), 3L)
  expect_identical(as_whole(0.5), 0.5)
  expect_identical(as_whole(1e10), 1e10)
  expect_identical(as_whole("3"), "3")
  expect_null(as_whole(NULL))
})
