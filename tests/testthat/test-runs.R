test_that("runs are removed, and files of others stay", {
  skip_without_python()
  folder <- withr::local_tempdir()
  mine <- a_run(folder, "mine", 1)
  writeLines("mine", file.path(mine, "notes.txt"))
  named <- a_run(folder, "20200101T000000Z-train", 1)
  expect_equal(run_remove(mine), list(mine = "notes.txt"))
  expect_equal(list.files(mine), "notes.txt")
  expect_equal(run_remove(named), list("20200101T000000Z-train" = character()))
  expect_false(file.exists(named))
  expect_equal(unname(run_remove(older_than = "1d", folder = folder)), list())
  expect_kind(run_remove(folder = folder), "error")
  expect_kind(run_remove(mine, older_than = "1d"), "error")
  expect_kind(run_remove(older_than = "a month", folder = folder), "error")
})

test_that("the table of runs fits the console, and times are local", {
  skip_without_python()
  withr::local_timezone("Asia/Tokyo")
  folder <- withr::local_tempdir()
  path <- a_run(folder, "20200101T000000Z-a-training-with-a-long-name", c(1, 1))
  line <- '{"epoch": 1, "loss": 1.5, "accuracy": 0.5, "val_loss": 2, "images_per_second": 12345, "time": 0}'
  writeLines(line, file.path(path, "metrics.jsonl"))
  withr::local_options(width = 80)
  shown <- capture.output(print(run_list(folder = folder)))
  expect_true(all(nchar(shown) <= 80))
  expect_length(shown, 2)
  expect_match(shown[2], "done +01-01 09:00 +epoch 1 ")
  # Where there is no room, the name has the time.
  withr::local_options(width = 70)
  expect_match(capture.output(print(run_list(folder = folder)))[2], "done +epoch 1 ")
  expect_equal(format(as.data.frame(run_list(folder = folder))$started, "%H:%M"), "09:00")
  expect_output(print(run_open(path)), "started +2020-01-01 09:00:00")
})

test_that("nothing that changes a terminal is printed of a run", {
  skip_without_python()
  folder <- withr::local_tempdir()
  # A control sequence, the same with a character of C1, and what reverses the direction of text.
  evil <- "\u001b[2Jevil\u009b31m\u202e"
  path <- file.path(folder, "20200101T000000Z-x")
  dir.create(file.path(path, "logs"), recursive = TRUE)
  put <- function(file, ...) writeLines(jsonlite::toJSON(list(...), auto_unbox = TRUE), file.path(path, file))
  time <- "2026-01-01T00:00:00.000+00:00"
  put("run.json", name = evil, command = list("a", evil), host = evil, started = time, pid = 1)
  task <- rlang::set_names(list(list(state = evil, host = evil)), evil)
  put("status.json", state = paste0("failed", evil), tasks = task, updated = time)
  put("error.json", time = time, task = evil, error = evil, host = evil, exit_code = 1)
  put("notes.jsonl", time = 1, about = evil, text = evil)
  do.call(put, c("metrics.jsonl", list(epoch = 1), rlang::set_names(list(1), evil)))
  run <- run_open(path)
  printed <- capture.output(print(run), print(run_list(folder = folder)))
  said <- vapply(list(run_model, run_values), function(ask) {
    tryCatch(ask(run), tfmuster_error = function(error) paste(conditionMessage(error), collapse = "\n"))
  }, "")
  shown <- enc2utf8(c(printed, said))
  expect_match(shown, "evil", all = FALSE)
  expect_no_match(shown, "[\u001b\u009b\u202e]|033\\[|009b|202e")
})

test_that("a run in the background is looked at, followed and stopped, from another session too", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  withr::local_dir(withr::local_tempdir())
  slow <- function() {
    for (i in 1:300) {
      cat("tick", i, "\n")
      Sys.sleep(0.1)
    }
  }
  begun <- Sys.time()
  run <- launch(slow, workers = 2, wait = FALSE)
  expect_lt(as.numeric(Sys.time() - begun, units = "secs"), 10)
  expect_equal(run_status(run)$state, "running")
  warning <- expect_warning(expect_identical(run_wait(run, timeout = 0.1), run), class = "tfmuster_warning")
  expect_match(conditionMessage(warning), "is still running after 0.1 seconds", fixed = TRUE)
  expect_match(capture.output(print(run)), "worker 1 +running, process [0-9]+", all = FALSE)
  for (i in 1:100) if (!length(run_logs(run, worker = 1))) Sys.sleep(0.1)
  name <- basename(format(run$path))
  expect_equal(as.data.frame(run_list())[c("name", "state", "tasks")], data.frame(
    name = name, state = "running", tasks = 2L
  ))
  other <- run_r(sprintf(
    "setwd(%s); r <- run_open('slow'); cat(r$name, run_status()$state); run_stop(r)", deparse(getwd())
  ))
  expect_match(other$output, paste(name, "running"), all = FALSE)
  expect_equal(run_status(name)$state, "interrupted")
  expect_match(unclass(run_logs(run, worker = 1, lines = 1)), "^worker 1 \\| tick [0-9]+$")
  error <- expect_kind(run_values(run), "error")
  expect_equal(error$found, "interrupted")
  expect_match(capture.output(print(run)), "^ +function +slow$", all = FALSE)
  expect_no_match(capture.output(print(run)), "worker.R", fixed = TRUE)
  expect_output(print(run_list()), paste0(name, " +interrupted"))
  expect_length(run_list("no such"), 0)
  expect_output(print(run_list("no such")), "No runs")
  expect_s3_class(run_list("slow")[1], "tfmuster_runs")
})

test_that("values of a background run come when it has ended, and a failure with its parent", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  withr::local_dir(withr::local_tempdir())
  run <- launch(function(x) x * 2, 21, workers = 2, wait = FALSE, name = "good")
  expect_equal(unname(unlist(run_values(run))), c(42, 42))
  run <- launch(function() stop("out of luck"), workers = 2, wait = FALSE, name = "bad")
  error <- expect_kind(run_values("bad"), "worker")
  expect_equal(conditionMessage(error$parent), "out of luck")
  expect_match(capture.output(print(run)), "first failure", all = FALSE)
})

test_that("logs are followed to the end", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  withr::local_dir(withr::local_tempdir())
  talks <- function() {
    for (i in 1:5) {
      message("line ", i)
      Sys.sleep(0.3)
    }
  }
  run <- launch(talks, workers = 2, wait = FALSE)
  shown <- capture.output(lines <- run_logs(run, worker = 0, follow = TRUE))
  expect_equal(shown, paste("worker 0 | line", 1:5))
  expect_equal(unclass(lines), shown)
  each <- paste0("worker ", rep(0:1, each = 5), " | line ", 1:5)
  expect_equal(unclass(run_logs(run, all_output = TRUE)), each)
  expect_equal(unclass(run_logs(run)), paste("[2 workers] | line", 1:5))
  expect_output(print(run_logs(run)[5]), "[2 workers] | line 5", fixed = TRUE)
  expect_error(run_logs(run, all_output = "yes"), "all_output")
  expect_match(expect_kind(run_logs(run, worker = 7), "error")$found, "worker 0, worker 1")
  error <- expect_kind(run_model(run), "error")
  expect_match(error$found, "no .*model.keras; the run is done")
  expect_match(conditionMessage(error), "\n  run_values(run)[[\"worker 0\"]]\n", fixed = TRUE)
  expect_no_warning(run_wait(run, timeout = 0))
})

test_that("a script's run has no values, and its model is where the script saves it", {
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  run <- run_open(a_run(folder, "mine", 1))
  expect_equal(expect_kind(run_values(run), "error")$found, "the run mine of `train.R`")
  save <- "model_to_file(model, file.path(Sys.getenv(\"TFMUSTER_RUN_DIR\"), \"model.keras\"))"
  expect_match(expect_kind(run_model(run), "error")$fix, save, fixed = TRUE)
  expect_output(print(run), "command +train.R")
})

test_that("arguments that can't be meant are errors of R's own", {
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  run <- run_open(a_run(folder, "mine", 1))
  runs <- run_list(folder = folder)
  found <- function(expr) expect_kind(expr, "error")$found
  goes_on <- c(starting = TRUE, running = TRUE, restarting = TRUE, failed = FALSE, done = FALSE)
  for (state in names(goes_on)) {
    text <- sprintf('{"state": "%s", "restarts": 0, "tasks": {}}', state)
    writeLines(text, file.path(format(run$path), "status.json"))
    expect_equal(run$goes_on, goes_on[[state]], info = state)
  }
  expect_equal(found(run_open(5)), "5")
  expect_equal(found(run_open(c("a", "b"))), "c(\"a\", \"b\")")
  expect_equal(found(run_open(NA_character_)), "NA_character_")
  expect_equal(found(run_open("mine", folder = 1)), "1")
  expect_equal(found(run_list(folder = TRUE)), "TRUE")
  expect_equal(found(run_logs(list())), "an object of class list and length 0")
  expect_equal(found(run_status(mean)), "an object of class function and length 1")
  expect_equal(found(run_values(runs["mine"])), "a list of 1 runs")
  expect_match(expect_kind(run_values(runs), "error")$fix, "runs[[1]]", fixed = TRUE)
  expect_equal(found(run_values(run_list("nope", folder = folder))), "a list of 0 runs")
  expect_equal(found(runs["x"]), "\"x\"")
  expect_equal(found(runs[2]), "2")
  expect_length(runs[0], 0)
  for (wrong in list("a", -1, c(1, 2), NA)) {
    expect_equal(found(run_wait(run, timeout = wrong)), deparse(wrong))
    expect_equal(found(run_stop(run, timeout = wrong)), deparse(wrong))
  }
  for (wrong in list("yes", NA, c(TRUE, FALSE))) {
    expect_equal(expect_kind(run_stop(run, save = wrong), "launch")$found, deparse(wrong))
  }
  expect_match(expect_kind(run_resume(run), "launch")$found, "the program of mine has finished")
  for (wrong in list(-1, 0, 1.5, "a", NA, 1:2)) {
    expect_equal(found(run_logs(run, lines = wrong)), deparse(wrong))
  }
  expect_equal(found(run_logs(run, worker = 0:1)), "0:1")
})

test_that("runs of other folders are listed and found", {
  skip_if_fast()
  skip_if(nzchar(Sys.getenv("_R_CHECK_PACKAGE_NAME_")), "a check has no index of runs")
  skip_without_python()
  withr::local_options(tfmuster.runs = NULL)
  withr::local_dir(withr::local_tempdir())
  dir.create("first")
  dir.create("second")
  setwd("first")
  writeLines("cat('hello')", "script.R")
  launch("script.R", workers = 1, quiet = TRUE, name = "elsewhere")
  expect_equal(expect_kind(run_remove("lsewhere"), "error")$reason, "part-of-name")
  setwd("../second")
  expect_false(any(grepl("-elsewhere$", names(run_list()))))
  expect_true(any(grepl("-elsewhere$", names(run_list(all = TRUE)))))
  expect_match(format(run_open("-elsewhere")$path), "first/runs/", fixed = TRUE)
  expect_equal(expect_kind(run_open("-elsewhere", folder = "runs"), "error")$kind, "error")
  expect_equal(expect_kind(run_list(all = "yes"), "launch")$kind, "launch")
  for (change in list(run_stop, run_resume, run_remove)) {
    error <- expect_kind(change("-elsewhere"), "error")
    expect_equal(error$reason, "part-of-name")
    expect_match(error$fix, paste("write", run_open("-elsewhere")$name), fixed = TRUE)
  }
  full <- run_open("-elsewhere")$name
  expect_equal(run_remove(full), rlang::set_names(list(character()), full))
})

test_that("a run that does not exist, or can't be shown, is an error", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  withr::local_dir(withr::local_tempdir())
  expect_match(expect_kind(run_status(), "error")$found, "no runs")
  expect_kind(run_open("some"), "error")
  expect_equal(nrow(as.data.frame(run_list())), 0)
  expect_equal(expect_kind(run_in_rstudio(launch(function() 1, quiet = TRUE)), "launch")$reason, "rstudio")
})

test_that("a run object of an earlier session is not taken for a run", {
  skip_without_python(tensorflow = TRUE)
  file <- withr::local_tempfile()
  saveRDS(run_python("Run", tempdir()), file)
  read <- run_r(sprintf(
    "e <- tryCatch(run_status(readRDS(%s)), error = identity); cat(class(e)[1], e$found)", deparse(file)
  ))
  expect_match(read$output, "tfmuster_error_error an object without its Python part", all = FALSE)
})

# RStudio is not in the registries. What rstudioapi asks of it is: a platform by its name, and functions in
# "tools:rstudio", of which this one runs a script as RStudio does, in an R of its own.
test_that("in RStudio a run is shown by a background job", {
  skip_without_python(tensorflow = TRUE)
  skip_if_not_installed("rstudioapi")
  shown <- run_r(c(
    "platform <- .Platform",
    "platform$GUI <- 'RStudio'",
    "base <- baseenv()",
    "unlockBinding('.Platform', base)",
    "assign('.Platform', platform, envir = base)",
    "api <- attach(NULL, name = 'tools:rstudio')",
    "api$.rs.api.versionInfo <- function() list(version = package_version('2024.12.1'), mode = 'desktop')",
    "api$.rs.api.getVersion <- function() package_version('2024.12.1')",
    "api$.rs.api.runScriptJob <- function(path, name, encoding, workingDir, importEnv, exportEnv) {",
    "  setwd(workingDir)",
    "  output <- system2(file.path(R.home('bin'), 'Rscript'), shQuote(path), stdout = TRUE)",
    "  cat(name, output, sep = '\\n')",
    "  'job-1'",
    "}",
    "setwd(tempdir())",
    "place <- 'runs/it is \\\\ mine'",
    "run <- launch(function() cat('trained\\n'), workers = 2, quiet = TRUE, run_dir = place)",
    "cat('id', run_in_rstudio(attr(run, 'run')), '\\n')",
    "run <- launch(function() cat('in the pane\\n'), workers = 1, run_dir = 'runs/by itself', wait = FALSE)",
    "cat('state', run_status(run)$state, '\\n')",
    "api$.rs.api.runScriptJob <- function(...) stop('no pane today')",
    "run <- withCallingHandlers(",
    "  launch(function() 1, workers = 1, run_dir = 'runs/without', wait = FALSE),",
    "  warning = function(w) { cat('warned:', conditionMessage(w), '\\n'); invokeRestart('muffleWarning') }",
    ")",
    "cat('value', run_values(run)[[1]], '\\n')"
  ), env = c(R_LIBS = paste(.libPaths(), collapse = ":")))
  expect_equal(shown$status, 0, info = toString(shown$output))
  for (line in c("^it is . mine$", "^\\[2 workers\\] \\| trained$", "^id job-1", "^by itself$",
                 "^worker 0 \\| in the pane$", "^state done", "^warned: .*no pane today", "^value 1")) {
    expect_match(shown$output, line, all = FALSE)
  }
})

test_that("the job's bar is the share of the epochs", {
  share <- function(...) share_of_epochs(lapply(list(...), function(at) list(progress = at)))
  expect_equal(share(), 0)
  expect_equal(share(NULL, list(phase = "starting")), 0)
  expect_equal(share(list(epoch = 1, epochs = 4)), 0)
  expect_equal(share(list(epoch = 2, epochs = 4, step = 5, steps = 10), NULL), 0.375)
  expect_equal(share(list(epoch = 4, epochs = 4, step = 10, steps = 10)), 1)
})

test_that("a run prints within a narrow console", {
  skip_without_python()
  withr::local_options(width = 60, cli.width = 60)
  run <- a_run(withr::local_tempdir(), "first", c(3, 1, 2))
  lines <- cli::ansi_strip(capture.output(print(run)))
  long <- lines[nchar(lines) > 60]
  # What has no blanks, such as a path, can't be broken.
  expect_false(any(grepl("\\S\\s+\\S+$", substring(long, 17))))
})

test_that("runs are compared", {
  skip_without_python()
  folder <- withr::local_tempdir()
  first <- a_run(folder, "first", c(3, 1, 2))
  a_run(folder, "second", c(3, NaN))
  info <- '{"host": "elsewhere", "command": ["train.R", "--lr", "1"], "started": "2020-01-01T00:00:00Z"}'
  writeLines(info, file.path(folder, "second", "run.json"))
  page <- withr::local_tempfile(fileext = ".html")
  compared <- compare_runs(run_list(folder = folder), path = page)
  expect_equal(compared$settings, data.frame(setting = "--lr", first = NA_character_, second = "1"))
  expect_equal(compared$metrics, data.frame(
    metric = rep(c("loss", "val_loss"), each = 2), run = rep(c("first", "second"), 2),
    final = rep(c(2, NaN), 2), best = rep(c(1, 3), 2), best_epoch = rep(c(2L, 1L), 2)
  ))
  expect_gt(file.size(page), 1000)
  expect_output(print(compared), "Settings that differ.*--lr.*Metrics.*val_loss +second +NaN +3 +1")
  expect_equal(expect_kind(compare_runs(first), "error")$found, "first")
  expect_equal(expect_kind(compare_runs(list(first, 1)), "error")$found, "1")
  expect_match(expect_kind(compare_runs(c(first, "no such run")), "error")$found, "no such run")
})
