# A real environment from the package index that pip is configured for, without TensorFlow.
test_that("install_tfmuster() makes an environment that later sessions find by themselves", {
  skip_if_fast()
  skip_on_cran()
  # R's LD_LIBRARY_PATH gives another Python of the same version the system's library.
  python <- if (file.exists("/usr/bin/python3")) "/usr/bin/python3" else Sys.which("python3")
  skip_if(python == "", "no python3 to make an environment with")
  home <- withr::local_tempdir()
  withr::local_envvar(WORKON_HOME = home)
  withr::local_dir(withr::local_tempdir())
  said <- character()
  name <- withCallingHandlers(
    # reticulate prefers any Python on PATH that has numpy to one that has not.
    install_tfmuster(python = python, packages = required_packages("none")),
    message = function(m) said <<- c(said, conditionMessage(m))
  )
  expect_equal(name, "r-tfmuster")
  expect_match(said, "Restart R", all = FALSE)
  expect_true(dir.exists(file.path(home, name)))
  # It may be called again, and installs only what is missing.
  expect_equal(suppressMessages(install_tfmuster(packages = "click>=8.1")), name)

  later <- run_r(
    c(
      "cat('there', tfmuster_available(tensorflow = FALSE), '\\n')",
      "cat(reticulate::py_config()$python, '\\n')"
    ),
    # The Python of this session has left VIRTUAL_ENV here.
    env = c(RETICULATE_PYTHON = NA, PYTHONPATH = NA, VIRTUAL_ENV = NA, WORKON_HOME = home)
  )
  expect_match(later$output, "there TRUE", all = FALSE)
  expect_match(later$output, "r-tfmuster", fixed = TRUE, all = FALSE)
})

test_that("numpy 1 is asked for only where reticulate needs it", {
  expect_true("numpy>=1.26,<2" %in% required_packages(reticulate_version = package_version("1.28")))
  expect_true("numpy>=1.26" %in% required_packages(reticulate_version = package_version("1.38")))
})

test_that("one TensorFlow is installed, or none", {
  of <- function(...) grep("^(tensorflow|keras)", required_packages(...), value = TRUE)
  expect_match(of(), "^tensorflow>=|^keras>=")
  expect_match(of("cpu"), "^tensorflow-cpu>=|^keras>=")
  expect_match(of("cuda"), "^tensorflow\\[and-cuda\\]>=|^keras>=")
  expect_length(of("cuda"), 2)
  expect_length(of("none"), 0)
  expect_error(install_tfmuster(tensorflow = "gpu"), "must be one of")
})
