# Names and defaults of a Python function's arguments; R has one place for further arguments.
python_arguments <- function(name) {
  inspect <- reticulate::import("inspect", convert = FALSE)
  bridge <- reticulate::import("tfmuster.r.bridge", convert = FALSE)
  parameters <- inspect$signature(bridge$resolve(name))$parameters
  names <- reticulate::py_to_r(reticulate::import_builtins(FALSE)$list(parameters))
  defaults <- lapply(names, function(name) reticulate::py_to_r(parameters[[name]]$default))
  names[names %in% c("args", "backend_options")] <- "..."
  rlang::set_names(defaults, names)
}

test_that("R functions and their Python twins take the same arguments with the same defaults", {
  skip_without_python(tensorflow = TRUE)
  twins <- c(
    "strategy", "mnist", "synthetic", "mnist_model", "train_mnist", "doctor",
    "check_cluster", "tf_config_json", "use_tf_config", "parse_tf_config",
    "save_model", "model_to_bytes", "model_from_bytes", "launch", "checkpoint_callback",
    "Local", "Ssh", "Slurm", "Sge", "Pbs", "Lsf", "Mpi", "Spark", "Control"
  )
  # Other packages of R have these names.
  in_r <- c(
    doctor = "tfmuster_doctor", save_model = "model_to_file", checkpoint_callback = "callback_checkpoint",
    Control = "launch_control"
  )
  for (twin in twins) {
    python <- python_arguments(twin)
    place <- if (twin %in% c("Local", "Ssh", "Slurm", "Sge", "Pbs", "Lsf", "Mpi", "Spark")) {
      paste0("on_", tolower(twin))
    }
    named <- place %||% if (twin %in% names(in_r)) in_r[[twin]] else twin
    r <- formals(named)
    # What only functions of R need.
    of_r <- c(if (twin == "launch") "args", if (twin == "Control") c("globals", "packages"))
    expect_setequal(setdiff(!!names(r), of_r), !!names(python))
    plain <- Filter(function(default) is.atomic(default) && length(default) == 1, python)
    expect_equal(lapply(r[names(plain)], eval), plain, info = twin)
  }
})

test_that("a core of another version is refused", {
  expect_snapshot(check_versions("0.1.0", "0.2.0"), error = TRUE)
  error <- expect_kind(check_versions("0.1.0", package_version("0.2.0")), "dependency")
  expect_equal(error$package, "tfmuster")
  expect_null(check_versions("0.1.0", package_version("0.1.0")))
})

test_that("no Python is an error that says what to do", {
  withr::local_envvar(RETICULATE_PYTHON = NA)
  expect_snapshot(abort_no_python(simpleError("could not find a Python {environment}"), NULL), error = TRUE)
})

test_that("as long as RETICULATE_PYTHON is set, no environment is advised that would not be used", {
  withr::local_envvar(RETICULATE_PYTHON = "/nowhere/python")
  error <- expect_kind(abort_no_python(simpleError("no"), NULL), "dependency")
  expect_match(error$fix, "RETICULATE_PYTHON is /nowhere/python[.] .* or unset it and run")
})

test_that("other Python exceptions and R's own braces come through as they are", {
  skip_without_python()
  expect_error(run_python("no_such_name"), "no_such_name")
  reported <- list(kind = "data", message = "a {b} {{c}} <d>", found = "{", path = "p")
  error <- expect_kind(abort_tfmuster(reported), "data")
  expect_match(conditionMessage(error), "a {b} {{c}} <d>", fixed = TRUE)
  expect_equal(error$path, "p")
  expect_equal(error$found, "{")
})

test_that("a missing Python package is an error that names it", {
  skip_without_python()
  run <- run_r(c(
    "reticulate::py_run_string(\"import sys; sys.modules['yaml'] = None\")",
    "file <- tempfile(fileext = '.yaml'); writeLines('worker: [\"a:1\"]', file)",
    "e <- tryCatch(cluster_from_file(file), error = identity)",
    "cat(class(e)[1], e$package)"
  ))
  expect_match(run$output, "tfmuster_error_dependency yaml", all = FALSE)
})

test_that("without TensorFlow every function that needs it says how to install it", {
  skip_without_python()
  run <- run_r(c(
    "reticulate::py_run_string(\"import sys; sys.modules.update(tensorflow = None, keras = None)\")",
    "for (call in expression(",
    "  strategy('mirrored'), train_mnist('cnn', dataset = 'synthetic'), mnist_model('cnn'), tfmuster_test()",
    ")) {",
    "  e <- tryCatch(eval(call), error = identity)",
    "  cat(class(e)[1], e$package, e$fix, '\\n')",
    "  reticulate::py_run_string(\"import os; os.environ.pop('RETICULATE_PYTHON', None)\")",
    "}",
    "cat(tfmuster_available(tensorflow = TRUE), tfmuster_available(), '\\n')",
    "cat('devices:', tfmuster_doctor()$devices, '\\n')"
  ))
  told <- "tfmuster_error_dependency tensorflow Run tfmuster::install_tfmuster(), or set"
  expect_equal(sum(startsWith(run$output, told)), 3)
  chosen <- "tfmuster_error_dependency tensorflow The environment variable RETICULATE_PYTHON has chosen this"
  expect_match(run$output, paste0("^", chosen), all = FALSE)
  expect_match(run$output, "^FALSE", all = FALSE)
  expect_match(run$output, "^devices: ", all = FALSE)
})

test_that("what keras3 sets for TensorFlow's log is not taken for the user's wish", {
  skip_on_os(c("mac", "windows"))
  asked <- function(level, start = NULL) {
    bytes <- unlist(lapply(c("A=1", start), function(text) c(charToRaw(text), as.raw(0))))
    writeBin(bytes, file <- withr::local_tempfile())
    asked_for_log(level, by_keras3 = TRUE, begun_with = file)
  }
  expect_true(asked(NULL))
  expect_true(asked("0"))
  expect_true(asked("2", "TF_CPP_MIN_LOG_LEVEL=2"))
  expect_false(asked("2"))
  expect_false(asked_for_log("2", by_keras3 = TRUE, begun_with = "/nowhere"))
  expect_true(asked_for_log("2", by_keras3 = FALSE))
})

test_that("whole doubles become integers, and nothing else changes", {
  expect_identical(as_whole(3), 3L)
  expect_identical(as_whole(0.5), 0.5)
  expect_identical(as_whole(1e10), 1e10)
  expect_identical(as_whole("3"), "3")
  expect_null(as_whole(NULL))
  expect_identical(as_whole(NA), NaN)
  expect_identical(as_whole(NA_integer_), NaN)
})
