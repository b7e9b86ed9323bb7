test_that("the text is compact, ordered, and what jsonlite writes with I()", {
  skip_without_python()
  skip_if_not_installed("jsonlite")
  task <- cluster_task(cluster_spec(worker = c("a:1", "b:2"), ps = "p:3"), "ps", 0)
  text <- tf_config_json(task)
  expect_identical(text, as.character(jsonlite::toJSON(
    list(cluster = list(worker = I(c("a:1", "b:2")), ps = I("p:3")), task = list(type = "ps", index = 0L)),
    auto_unbox = TRUE
  )))
  expect_gt(length(strsplit(tf_config_json(task, pretty = TRUE), "\n")[[1]]), 5)
})

test_that("a task in force reaches R, Python, which runs already, and the processes of both", {
  skip_without_python()
  withr::local_envvar(TF_CONFIG = NA)
  os <- reticulate::import("os")
  text <- use_tf_config(cluster_task(two_workers(), "worker", 1))
  expect_equal(Sys.getenv("TF_CONFIG"), text)
  expect_equal(os$environ$get("TF_CONFIG"), text)
  show <- "cat(Sys.getenv('TF_CONFIG'))"
  expect_equal(system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(show)), stdout = TRUE), text)
  python <- reticulate::import("subprocess")$check_output(
    list(reticulate::py_config()$python, "-c", "import os; print(os.environ['TF_CONFIG'], end='')"),
    text = TRUE
  )
  expect_equal(python, text)
  expect_true(current_task() == cluster_task(two_workers(), "worker", 1))
})

test_that("use_tf_config() works before Python has started", {
  skip_without_python()
  run <- run_r(c(
    "stopifnot(!reticulate::py_available())",
    "use_tf_config(cluster_task(cluster_spec(worker = c('a:1', 'b:2')), 'worker', 1))",
    "stopifnot(reticulate::import('os')$environ$get('TF_CONFIG') == Sys.getenv('TF_CONFIG'))",
    "cat(current_task()$name)"
  ), env = c(fresh, TF_CONFIG = NA))
  expect_equal(run$status, 0, info = run$output)
  expect_match(run$output, "worker 1", all = FALSE)
})

test_that("a TF_CONFIG set with Sys.setenv() is seen by a Python that runs already", {
  skip_without_python()
  withr::local_envvar(TF_CONFIG = NA)
  expect_null(current_task())
  Sys.setenv(TF_CONFIG = '{"cluster":{"worker":["a:1","b:2"]},"task":{"type":"worker","index":1}}')
  expect_equal(current_task()$name, "worker 1")
  Sys.unsetenv("TF_CONFIG")
  expect_null(current_task())
})

test_that("what jsonlite makes of a lone worker is repaired, with a warning", {
  skip_without_python()
  text <- '{"cluster":{"worker":"a:1"},"task":{"type":"worker","index":"0"}}'
  seen <- list()
  task <- withCallingHandlers(parse_tf_config(text), tfmuster_warning = function(w) {
    seen[[length(seen) + 1]] <<- w
    invokeRestart("muffleWarning")
  })
  expect_true(task == cluster_task(cluster_spec(worker = "a:1"), "worker", 0))
  expect_gte(length(seen), 1)
  expect_snapshot(cat(vapply(seen, conditionMessage, ""), sep = "\n"))
})

test_that("a text that is no TF_CONFIG is an error that shows it literally", {
  skip_without_python()
  expect_snapshot(parse_tf_config('{"cluster": {"worker": ["a:1"'), error = TRUE)
  text <- '{"cluster":{"worker":["{x}"]},"task":{"type":"worker","index":0}}'
  expect_snapshot(parse_tf_config(text), error = TRUE)
})

test_that("a barrier of sparklyr gives the document's TF_CONFIG, with one worker, too", {
  skip_without_python()
  barrier <- list(address = c("192.0.2.2:59756", "192.0.2.2:38376"), partition = 1L)
  documented <- jsonlite::toJSON(list(
    cluster = list(worker = paste(gsub(":[0-9]+$", "", barrier$address), 8000 + 1:2, sep = ":")),
    task = list(type = "worker", index = barrier$partition)
  ), auto_unbox = TRUE)
  expect_identical(tf_config_from_barrier(barrier), as.character(documented))
  one <- tf_config_from_barrier(list(address = "10.0.0.5:41231", partition = 0L), 9000)
  expect_identical(jsonlite::fromJSON(one)$cluster$worker, "10.0.0.5:9001")
  expect_match(one, '["10.0.0.5:9001"]', fixed = TRUE)
  expect_error(tf_config_from_barrier(list()), class = "tfmuster_error_cluster")
})
