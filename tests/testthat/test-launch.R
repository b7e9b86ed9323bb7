test_that("a script that never heard of tfmuster runs on two workers, with R's arguments", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "arguments <- commandArgs(trailingOnly = TRUE)",
    "config <- Sys.getenv('TF_CONFIG')",
    "index <- sub('.*\"index\":([0-9]+).*', '\\\\1', config)",
    "writeLines(c(config, arguments), file.path(arguments[1], paste0('worker-', index)))"
  ))
  out <- withr::local_tempdir()
  launch(script, out, "a b", 7, workers = 2, quiet = TRUE, run_dir = file.path(out, "run"))
  for (index in 0:1) {
    lines <- readLines(file.path(out, paste0("worker-", index)))
    expect_equal(parse_tf_config(lines[1])$name, paste("worker", index))
    expect_equal(lines[3:4], c("a b", "7"))
  }
})

test_that("the seed of a job comes from the session's generator", {
  skip_if_fast()
  skip_without_python()
  drawn <- function(...) {
    unlist(launch(function() runif(1), workers = 2, quiet = TRUE, run_dir = tempfile("run"), ...))
  }
  first <- withr::with_seed(1, drawn())
  expect_equal(first[[1]], first[[2]])
  expect_equal(withr::with_seed(1, drawn()), first)
  expect_equal(drawn(seed = 5), c("worker 0" = 1, "worker 1" = 1) * withr::with_seed(5, runif(1)))
  expect_error(launch(identity, 1, seed = 1.5), "`seed` must be a whole number from 0 to 2147483647")
})

test_that("a launch by a worker, and more workers than this machine carries, are refused", {
  skip_if_fast()
  skip_without_python()
  nested <- function() tfmuster::launch(function() 1, workers = 2)
  error <- expect_kind(launch(nested, workers = 1, quiet = TRUE, run_dir = tempfile("run")), "worker")
  expect_s3_class(error$parent, "tfmuster_error_launch")
  expect_equal(error$parent$reason, "nested")
  expect_equal(error$parent$found, "tfmuster::launch(function() 1, workers = 2)")
  expect_equal(error$hints, list(list(option = "allow_nested", value = TRUE)))
  expect_match(error$parent$fix, "write launch(..., control = launch_control(allow_nested = TRUE))",
    fixed = TRUE
  )
  error <- expect_kind(launch(function() 1, workers = 1000, run_dir = tempfile("run")), "launch")
  expect_equal(error$reason, "oversubscribed")
  expect_match(error$fix, "To start all here, set oversubscribe = TRUE", fixed = TRUE)
})

test_that("train.R trains on two workers, with a model built in R", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  out <- withr::local_tempdir()
  script <- file.path(out, "train.R")
  writeLines(c(
    "library(tfmuster)",
    "out <- commandArgs(trailingOnly = TRUE)",
    "made <- strategy('multi_worker_mirrored')",
    own_model,
    "model$fit(digits$x_train, digits$y_train, batch_size = 64L, epochs = 1L, verbose = 0L)",
    "saved <- model_to_file(model, file.path(out, 'model.keras'))",
    "index <- current_task()$index",
    "stopifnot(is.null(saved) == (index == 1))",
    "saveRDS(model$get_weights(), file.path(out, paste0('weights-', index, '.rds')))"
  ), script)
  launch(script, out, workers = 2, quiet = TRUE, run_dir = file.path(out, "run"))
  weights <- lapply(0:1, function(index) readRDS(file.path(out, paste0("weights-", index, ".rds"))))
  expect_identical(weights[[1]], weights[[2]])
  expect_equal(
    reticulate::import("keras")$models$load_model(file.path(out, "model.keras"))$get_weights(), weights[[1]]
  )
})

test_that("the error of a worker that has joined the others is the cause", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "library(tfmuster)", "made <- strategy('multi_worker_mirrored')", "read <- function() stop('no data')",
    "if (current_task()$index == 1) read() else Sys.sleep(60)"
  ))
  run_dir <- file.path(withr::local_tempdir(), "run")
  error <- expect_kind(launch(script, workers = 2, quiet = TRUE, run_dir = run_dir), "worker")
  expect_match(error$message, "^no data \\(worker 1 on .* failed with exit code 1\\)$")
  expect_match(error$error, "Error in read\\(\\) : no data")
  expect_equal(conditionMessage(error$parent), "no data")
  expect_equal(conditionCall(error$parent), quote(read()))
})

test_that("a script that never heard of tfmuster fails with its own lines, in this session and the next", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "reticulate::py_run_string('def fails(x):\\n  raise ValueError(x)')",
    "f <- function(x) if (x) reticulate::py$fails('from Python') else stop('no {luck}')", "f(TRUE)"
  ))
  folder <- withr::local_tempdir()
  run_dir <- file.path(folder, "run")
  error <- expect_kind(launch(script, workers = 1, quiet = TRUE, run_dir = run_dir), "worker")
  expect_match(conditionMessage(error$parent), "ValueError: from Python")
  frames <- vapply(error$parent$trace$call, rlang::as_string, "")
  expect_match(frames, "^f[(]TRUE[)]$|^fails[(][)] at .*:2$", all = TRUE)
  expect_length(frames, 2)

  writeLines(sub("f(TRUE)", "f(FALSE)", readLines(script), fixed = TRUE), script)
  run <- launch(script, workers = 1, quiet = TRUE, wait = FALSE, run_dir = file.path(folder, "later"))
  error <- expect_kind(check_run(run_wait(run)), "worker")
  expect_equal(conditionCall(error$parent), quote(f(FALSE)))
  expect_equal(lengths(regmatches(format(error), gregexpr("! no [{]luck[}]\n", format(error)))), 1)
  cause <- "Caused by error in `f[(][)]`:\n! no [{]luck[}]\n.*f[(]FALSE[)]"
  expect_match(format(error, simplify = "branch"), cause)
})

test_that("the live line is the first of an error with parts, and its trace has only what the user wrote", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  run_dir <- file.path(withr::local_tempdir(), "run")
  wrong <- function(strategy, kinds) {
    choose <- function() strategy(kinds[[as.integer(strategy$num_replicas_in_sync)]])
    choose()
  }
  given <- list(kinds = c("", "nothing of this name"))
  launched <- expect_kind(launch(wrong, workers = 2, args = given, quiet = TRUE, run_dir = run_dir), "worker")
  expect_match(launched$error, "^Error in `strategy\\(\\)`: There is no strategy \"nothing of")
  expect_match(conditionMessage(launched$parent), "^There is no strategy \"nothing of")
  trace <- grep("^ *[0-9]+[.] ", strsplit(launched$traceback, "\n")[[1]], value = TRUE)
  expect_match(trace, "wrong|choose|strategy")
  expect_length(trace, 3)
  expect_false(any(grepl("abort|run_python", format(launched$trace))))
})

test_that("a worker that fails is an error with its name", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  script <- withr::local_tempfile(fileext = ".R", lines = "quit(status = 3)")
  out <- withr::local_tempdir()
  error <- expect_kind(launch(script, workers = 2, quiet = TRUE, run_dir = file.path(out, "run")), "worker")
  expect_equal(error$exit_code, 3)
})

test_that("after a failure all start again", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  lines <- "if (Sys.getenv('TFMUSTER_RESTART') == '0') quit(status = 3)"
  script <- withr::local_tempfile(fileext = ".R", lines = lines)
  out <- withr::local_tempdir()
  run <- launch(script, workers = 2, quiet = TRUE, run_dir = file.path(out, "run"), max_restarts = 1)
  expect_equal(run$status()[c("state", "restarts")], list(state = "done", restarts = 1))
})

test_that("a script that is not there is an error before anything starts", {
  skip_without_python(tensorflow = TRUE)
  expect_kind(launch("no-such-script.R", workers = 2), "launch")
})

test_that("parameter servers train from R, with R's data, callbacks and errors", {
  skip_if_fast()
  skip_on_cran()
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  script <- file.path(folder, "train.R")
  writeLines(c(
    "library(tfmuster)",
    "ps <- strategy('parameter_server')",
    "tf <- reticulate::import('tensorflow')",
    "digits <- synthetic(train = 600, test = 100)",
    "make <- function(context) {",
    "  rows <- reticulate::tuple(digits$x_train, digits$y_train)",
    "  data <- tf$data$Dataset$from_tensor_slices(rows)",
    "  data$shard(context$num_input_pipelines, context$input_pipeline_id)$shuffle(600L)$batch(50L)",
    "}",
    "losses <- c()",
    "tell <- function(self, epoch, logs = NULL) { losses <<- c(losses, logs$loss); invisible() }",
    "callback <- reticulate::import('keras')$callbacks$Callback",
    "Tell <- reticulate::PyClass('Tell', list(on_epoch_end = tell), callback)",
    "model <- mnist_model('softmax', seed = 1, learning_rate = 0.05)",
    "history <- ps_fit(model, make, epochs = 2, steps_per_epoch = 20, callbacks = list(Tell()), verbose = 0)",
    "history <- as.data.frame(history)",
    "stopifnot(all.equal(losses, history$value[history$metric == 'loss']), losses[2] < losses[1])",
    "stopifnot('staleness' %in% history$metric)",
    "refused <- tryCatch(ps_fit(model, make, updates = 'now', steps_per_epoch = 1), error = identity)",
    "stopifnot(inherits(refused, 'tfmuster_error_strategy'), refused$reason == 'updates')",
    "cat('as it should be\\n')"
  ), script)
  control <- launch_control(ps = 1)
  run <- launch(script, workers = 2, control = control, quiet = TRUE, run_dir = file.path(folder, "run"))
  expect_match(run$logs("worker 0"), "as it should be", all = FALSE)
  expect_equal(unique(vapply(run$status()$tasks, function(task) task$state, "")), "done")
})
