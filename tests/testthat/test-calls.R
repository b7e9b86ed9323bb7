# launch() of R functions.
in_run <- function(...) {
  launch(..., workers = 2, run_dir = file.path(withr::local_tempdir(.local_envir = parent.frame()), "run"))
}

test_that("a function finds its globals, packages, locals and the session's variables on each worker", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  withr::local_envvar(TFMUSTER_TEST_OF_MINE = "mine")
  make <- function() {
    # Not used, so it must not travel: the file would show it.
    unused <- stats::runif(1e6)
    factor <- 3
    times <- function(x) x * factor
    function(x, y) {
      list(
        value = times(x) + y, variable = Sys.getenv("TFMUSTER_TEST_OF_MINE"),
        task = tfmuster::current_task()$name, text = py_eval("'from Python'"), process = Sys.getpid(),
        file = file.info(file.path(Sys.getenv("TFMUSTER_RUN_DIR"), "call", "call.rds"))[c("size", "mode")]
      )
    }
  }
  folder <- withr::local_tempdir()
  values <- launch(
    make(), 2,
    workers = 2, args = list(y = 1), control = launch_control(packages = "reticulate"),
    run_dir = file.path(folder, "run"), quiet = TRUE
  )
  expect_named(values, c("worker 0", "worker 1"))
  expected <- list(value = 7, variable = "mine", task = "worker 1", text = "from Python")
  expect_equal(values[["worker 1"]][1:4], expected)
  expect_false(any(c(values[[1]]$process, values[[2]]$process) == Sys.getpid()))
  # The file is there while the run lasts, and its values stay.
  file <- call_file(file.path(folder, "run"))
  expect_lt(values[[1]]$file$size, 50000)
  expect_equal(as.character(values[[1]]$file$mode), "600")
  expect_equal(as.character(file.info(dirname(file))$mode), "700")
  expect_false(file.exists(file))
  expect_true(file.exists(call_file(file.path(folder, "run"), "worker 0")))
  expect_equal(run_status(values)$state, "done")
})

test_that("objects of the global environment are found there, also through other functions", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  run <- run_r(c(
    "offset <- 10; add <- function(x) x + offset",
    "values <- launch(function(x) add(x), 5, workers = 2, run_dir = tempfile('run'), quiet = TRUE)",
    "cat(values[[1]], values[[2]])"
  ))
  expect_match(run$output, "15 15", all = FALSE)
})

test_that("a failure is an R error whose parent is the worker's own condition", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  fails <- function(x) {
    if (tfmuster::current_task()$index == 1) rlang::abort("no {luck}", class = "bad_luck", x = x)
    Sys.sleep(60)
  }
  error <- expect_kind(in_run(fails, 3, quiet = TRUE), "worker")
  expect_equal(error$task, "worker 1")
  expect_s3_class(error$parent, "bad_luck")
  expect_equal(conditionMessage(error$parent), "no {luck}")
  expect_match(conditionMessage(error), "worker 1 on .* failed with exit code 1")
})

test_that("lines carry the worker's name, and the chief's warnings become this session's", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  talks <- function() {
    message("a message")
    warning("be careful")
    print("printed  {x}")
    "returned"
  }
  caught <- list()
  shown <- capture.output(withCallingHandlers(
    values <- in_run(talks, control = launch_control(all_output = TRUE)),
    warning = function(w) {
      caught[[length(caught) + 1]] <<- w
      invokeRestart("muffleWarning")
    }
  ))
  for (worker in c("worker 0 | ", "worker 1 | ")) {
    expect_true(paste0(worker, "a message") %in% shown)
    expect_true(paste0(worker, "[1] \"printed  {x}\"") %in% shown)
    expect_match(shown, paste0("^", worker, "Warning in .*be careful"), all = FALSE)
  }
  expect_length(caught, 1)
  expect_s3_class(caught[[1]], "tfmuster_warning_worker")
  expect_equal(caught[[1]]$task, "worker 0")
  expect_equal(conditionMessage(caught[[1]]$parent), "be careful")
  expect_equal(unlist(values), c("worker 0" = "returned", "worker 1" = "returned"))
})

test_that("a strategy is made for the function, and its model and history come back", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  train <- function(strategy, units) {
    keras <- reticulate::import("keras")
    with(strategy$scope(), {
      model <- keras$Sequential(list(
        keras$Input(shape = reticulate::tuple(28L, 28L)), keras$layers$Rescaling(1 / 255),
        keras$layers$Flatten(), keras$layers$Dense(units), keras$layers$Dense(10L)
      ))
      model$compile(
        loss = keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE), metrics = list("accuracy")
      )
    })
    digits <- synthetic(1, 256, 64)
    history <- model$fit(digits$x_train, digits$y_train, batch_size = 64L, epochs = 2L, verbose = 0L)
    list(model = model, history = history, weights = model$get_weights())
  }
  shown <- capture.output(values <- in_run(train, units = 4L))
  expect_match(shown, "^epoch 1  loss [0-9.]+  accuracy [0-9.]+", all = FALSE)
  expect_equal(values[[1]]$weights, values[[2]]$weights)
  expect_equal(values[[1]]$model$get_weights(), values[[1]]$weights)
  expect_null(values[[2]]$model)
  expect_s3_class(values[[1]]$history, "tfmuster_history")
  expect_equal(run_history(values)$value, values[[1]]$history$value)
})

test_that("a name that nothing has is an error of the worker, not NULL", {
  skip_if_fast()
  expect_false("no_such_object" %in% names(pack_function(function() no_such_object + 1)$values))
  skip_without_python(tensorflow = TRUE)
  error <- expect_kind(in_run(function() no_such_object + 1, quiet = TRUE), "worker")
  expect_match(conditionMessage(error$parent), "no_such_object")
})

test_that("what can't travel is named before anything starts", {
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  runs <- file.path(folder, "run")
  spec <- two_workers()
  error <- expect_kind(launch(function() spec$digest, workers = 2, run_dir = runs), "launch")
  expect_equal(error$reason, "python-object")
  expect_match(error$found, "`spec` is or contains one: tfmuster.Cluster", fixed = TRUE)
  nested <- list(1, list(spec))
  expect_kind(launch(function(x) x, nested, workers = 2, run_dir = runs), "launch")
  closure <- local({
    inner <- spec
    function() inner
  })
  expect_kind(launch(function() closure(), workers = 2, run_dir = runs), "launch")
  expect_match(expect_kind(launch(function() spec, workers = 2), "launch")$fix, "inside the function")
  control <- launch_control(globals = "not_here")
  error <- expect_kind(launch(function() 1, control = control, workers = 2, run_dir = runs), "launch")
  expect_equal(error$reason, "globals")
  expect_false(file.exists(runs))
  # Nor is anything left when the job itself is refused.
  expect_kind(launch(function() 1, workers = 0, run_dir = runs), "launch")
  expect_false(file.exists(runs))
})

test_that("a value that can't travel is an error that says what to return", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  control <- launch_control(globals = list(
    two_workers_of_mine = function() tfmuster::cluster_spec(worker = "a:1")
  ))
  error <- expect_kind(in_run(function() two_workers_of_mine(), quiet = TRUE, control = control), "worker")
  expect_s3_class(error$parent, "tfmuster_error_launch")
  expect_match(error$parent$found, "tfmuster.Cluster", fixed = TRUE)
})

test_that("an object of over 500 MB is named", {
  warning <- expect_warning(check_travels(list(large = numeric(65e6))), class = "tfmuster_warning")
  expect_match(conditionMessage(warning), "`large` has 0.5 GB", fixed = TRUE)
  expect_no_warning(check_travels(list(small = 1)))
})

test_that("a run that is there already is not touched", {
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  dir.create(file.path(folder, "logs"))
  writeLines("{}", file.path(folder, "run.json"))
  error <- expect_kind(launch(function() 1, workers = 2, run_dir = folder), "launch")
  expect_equal(error$reason, "run-dir")
  expect_setequal(list.files(folder), c("logs", "run.json"))
})

test_that("a job that can't start removes nothing of the user's", {
  skip_without_python()
  folder <- withr::local_tempdir()
  dir.create(file.path(folder, "data"))
  files <- file.path(folder, c("notes.txt", "data/a.csv"))
  for (file in files) writeLines("mine", file)
  expect_kind(launch(function() 1, on = on_slurm("none"), workers = 2, run_dir = folder), "launch")
  nowhere <- on_ssh("no.such.host.invalid")
  expect_kind(launch(function() 1, on = nowhere, workers = 2, run_dir = folder), "launch")
  expect_kind(launch(function() 1, workers = 0, run_dir = folder), "launch")
  expect_setequal(list.files(folder, recursive = TRUE), c("notes.txt", "data/a.csv"))
  expect_equal(lapply(files, readLines), list("mine", "mine"))
})

test_that("worker 10 comes after worker 9", {
  folder <- withr::local_tempdir()
  dir.create(call_folder(folder))
  tasks <- c("chief 0", paste("worker", 0:10))
  for (task in list(NULL, tasks[1], tasks[12], tasks[3])) saveRDS(list(), call_file(folder, task))
  expect_setequal(tasks_left(folder), tasks[c(1, 12, 3)])
  expect_equal(in_order(rev(tasks)), tasks)
})

test_that("a function that ends R has NULL as value, and is an error where no worker returns", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  values <- in_run(function() if (tfmuster::current_task()$index == 1) q("no") else "here", quiet = TRUE)
  expect_equal(unclass(values)[1:2], list("worker 0" = "here", "worker 1" = NULL))
  error <- expect_kind(in_run(function() q("no"), quiet = TRUE), "launch")
  expect_equal(error$reason, "ended")
})

test_that("with parameter servers the coordinator alone has a value, without them each worker has a place", {
  skip_without_python(tensorflow = TRUE)
  path <- a_run(withr::local_tempdir(), "mine", 1)
  dir.create(call_folder(path), mode = "0700")
  file.create(file.path(call_folder(path), "any-values"))
  save_private(list(value = 1), call_file(path, "chief 0"))
  run <- run_open(path)
  of_tasks <- function(...) {
    tasks <- paste(sprintf('"%s": {"state": "done"}', c(...)), collapse = ", ")
    writeLines(sprintf('{"state": "done", "tasks": {%s}}', tasks), file.path(path, "status.json"))
    names(values_of(run))
  }
  expect_equal(of_tasks("chief 0", "ps 0", "worker 0", "worker 1"), "chief 0")
  expect_equal(of_tasks("worker 10", "worker 2", "chief 0"), c("chief 0", "worker 2", "worker 10"))
})

test_that("a value of another machine is read only if it is data", {
  skip_without_python(tensorflow = TRUE)
  path <- a_run(withr::local_tempdir(), "mine", 1)
  dir.create(call_folder(path), mode = "0700")
  returned <- function(value) {
    save_private(list(value = value), call_file(path, "worker 0"), version = 2)
    values_of(run_open(path))[[1]]
  }
  data <- list(
    a = 1:3, b = letters, c = NULL, d = data.frame(x = c(1.5, NA), y = factor(c("a", "b"))),
    e = matrix(1:4, 2), f = as.POSIXct("2026-01-01", tz = "UTC"), g = as.raw(1:3), h = c(1i, 2),
    i = NA_character_, j = "\u00fc"
  )
  expect_equal(returned(data), data)
  refused <- function(value, found) {
    error <- expect_kind(returned(value), "error")
    expect_equal(error$reason, "not-plain")
    expect_match(error$found, found)
  }
  refused(list(1, function(x) x), "a function in")
  refused(structure(1, made_by = globalenv()), "an environment in")
  refused(y ~ x, "a call or a formula in")
  refused(list(new.env()), "an environment in")
  refused(expression(a), "an expression in")
  refused(methods::new("externalptr"), "an external pointer in")
  # A promise that a host has written by hand: readRDS() does not run it, the first look at the value does.
  promise <- c(
    charToRaw("X\n"), as.raw(c(0, 0, 0, 2, 0, 4, 3, 0, 0, 2, 3, 0)),
    as.raw(c(0, 0, 0, 5)), as.raw(c(0, 0, 0, 253)), as.raw(c(0, 0, 0, 254)), as.raw(c(0, 0, 0, 254))
  )
  writeBin(promise, call_file(path, "worker 0"))
  error <- expect_kind(values_of(run_open(path)), "error")
  expect_match(error$found, "a promise in")
  # Of a value whose hosts are trusted, everything is read, but not what others can write.
  file.create(file.path(call_folder(path), "any-values"))
  expect_equal(returned(function(x) x + 1)(2), 3)
  Sys.chmod(call_file(path, "worker 0"), "0666", use_umask = FALSE)
  error <- expect_kind(values_of(run_open(path)), "error")
  expect_equal(error$reason, "foreign")
})
