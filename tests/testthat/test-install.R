# A real environment from the package index that pip is configured for, without TensorFlow.
test_that("install_tfmuster() makes an environment that later sessions find by themselves", {
  skip_if_fast()
  skip_on_cran()
  # R's LD_LIBRARY_PATH gives another Python of the same version the system's library.
  python <- if (file.exists("/usr/bin/python3")) "/usr/bin/python3" else Sys.which("python3")
  skip_if(python == "", "no python3 to make an environment with")
  home <- withr::local_tempdir()
  withr::local_envvar(WORKON_HOME = home, R_USER_DATA_DIR = file.path(home, "data"))
  withr::local_dir(withr::local_tempdir())
  said <- character()
  name <- withCallingHandlers(
    # reticulate prefers any Python on PATH that has numpy to one that has not.
    install_tfmuster(python = python, packages = required_packages("none")),
    message = function(m) said <<- c(said, conditionMessage(m))
  )
  expect_equal(name, "r-tfmuster")
  expect_match(said, "Restart R", all = FALSE)
  # The command of that Python, with the core of this package, from any folder.
  command <- file.path(home, "data", "R", "tfmuster", "bin", "tfmuster")
  expect_match(said, command, fixed = TRUE, all = FALSE)
  version <- withr::with_envvar(c(PYTHONPATH = NA), system2(command, "--version", stdout = TRUE))
  expect_match(version, as.character(utils::packageVersion("tfmuster")), fixed = TRUE, all = FALSE)
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
  of <- function(...) grep("^(tensorflow|keras)", required_packages(..., gpu = FALSE), value = TRUE)
  expect_match(of(), "^tensorflow>=|^keras>=")
  expect_match(of("cpu"), "^tensorflow-cpu>=|^keras>=")
  expect_match(of("cuda"), "^tensorflow\\[and-cuda\\]>=|^keras>=")
  expect_length(of("cuda"), 2)
  expect_length(of("none"), 0)
  expect_error(install_tfmuster(tensorflow = "gpu"), "must be one of")
})

test_that("NVIDIA's libraries are installed on Linux with a GPU", {
  root <- withr::local_tempdir()
  expect_false(has_nvidia_gpu(root, "Linux"))
  dir.create(file.path(root, "dev"))
  file.create(file.path(root, "dev", "nvidiactl"))
  expect_true(has_nvidia_gpu(root, "Linux"))
  expect_false(has_nvidia_gpu(root, "Darwin"))
  with_cuda <- "tensorflow[and-cuda]>=2.16,<2.22"
  expect_true(with_cuda %in% required_packages(gpu = TRUE))
  expect_false(with_cuda %in% required_packages(gpu = FALSE))
  expect_false(with_cuda %in% required_packages("tensorflow", gpu = TRUE))
})

test_that("an environment is made with a Python that TensorFlow has packages for", {
  expect_equal(python_versions(package_version("1.28")), 10:11)
  expect_equal(python_versions(package_version("1.46")), 10:13)
  skip_on_os("windows")
  # Programs that say which Python they are, in place of all others.
  folder <- withr::local_tempdir()
  a_python <- function(name, version) {
    file <- file.path(folder, name)
    writeLines(c("#!/bin/sh", paste("echo", version)), file)
    Sys.chmod(file, "755")
  }
  places <- c(PATH = folder, WORKON_HOME = folder, HOME = folder)
  local_mocked <- function(code) withr::with_envvar(places, code)
  skip_if(exists("virtualenv_starter", asNamespace("reticulate")), "reticulate looks elsewhere, too")
  a_python("python3", 14)
  error <- local_mocked(expect_kind(suitable_python(), "dependency"))
  expect_match(error$found, "python3 (3.14)", fixed = TRUE)
  a_python("python3.10", 10)
  a_python("python3.11", 11)
  expect_equal(unname(local_mocked(suitable_python())), file.path(folder, "python3.11"))
})

test_that("whether Python is there is answered without making an environment", {
  skip_on_cran()
  # As on a machine that has no Python for R: reticulate from 1.41 on would download uv, Python and packages.
  home <- withr::local_tempdir()
  empty <- c(
    RETICULATE_PYTHON = NA, PYTHONPATH = NA, VIRTUAL_ENV = NA, WORKON_HOME = file.path(home, "envs"),
    PATH = paste(c(R.home("bin"), "/usr/bin", "/bin"), collapse = ":"), HOME = home,
    R_USER_CACHE_DIR = file.path(home, "cache"), XDG_CACHE_HOME = file.path(home, "xdg"),
    https_proxy = "http://127.0.0.1:9", RETICULATE_MINICONDA_PATH = file.path(home, "conda")
  )
  run <- run_r(c(
    "setwd(tempdir())",
    "there <- tfmuster_available()",
    "report <- tfmuster_doctor(devices = FALSE)",
    "cat('there', there, is.null(report$python$problem), '\\n')"
  ), env = empty)
  expect_match(run$output, "^there FALSE", all = FALSE)
  # reticulate notes in its cache which environments it has looked at.
  made <- list.files(home, recursive = TRUE, pattern = "uv|pyvenv|conda|bin")
  expect_equal(made, character())
  managed <- utils::packageVersion("reticulate") >= "1.41"
  if (managed) expect_match(run$output, "^there FALSE FALSE", all = FALSE)
})
