# Generators written in R, in this process. `make test-all` also runs them on two workers.
rows_of_generator <- function(x, y, rows = 20, last = Inf, calls = new.env()) {
  calls$n <- 0
  function() {
    calls$n <- calls$n + 1
    if (calls$n > last) {
      return(NULL)
    }
    picked <- ((calls$n - 1) * rows + seq_len(rows) - 1) %% nrow(x) + 1
    list(x[picked, , drop = FALSE], y[picked])
  }
}

test_that("a generator trains as the same arrays do, and is called as often as there are steps", {
  skip_without_python(tensorflow = TRUE)
  data <- withr::with_seed(4, two_classes(100))
  plain <- a_model()
  history <- fit(plain, data$x, data$y, batch_size = 20, epochs = 3, shuffle = FALSE, verbose = FALSE)
  calls <- new.env()
  model <- a_model()
  generated <- fit(model, rows_of_generator(data$x, data$y, calls = calls),
    epochs = 3, steps_per_epoch = 5, verbose = FALSE
  )
  expect_equal(calls$n, 15)
  expect_equal(as.data.frame(generated), as.data.frame(history), tolerance = 1e-6)
  expect_equal(model$get_weights(), plain$get_weights(), tolerance = 1e-6)
  scores <- evaluate(model, rows_of_generator(data$x, data$y, last = 5))
  expect_equal(scores, evaluate(plain, data$x, data$y, batch_size = 20), tolerance = 1e-5)
  expect_equal(evaluate(model, rows_of_generator(data$x, data$y), steps = 5), scores)
  batches <- rows_of_generator(data$x, data$y, last = 3)
  only_data <- function() batches()[1]
  expect_equal(predict(model, only_data), predict(model, data$x[1:60, ]), tolerance = 1e-5)
})

test_that("a generator may return data frames, factors, weights, and validate", {
  skip_without_python(tensorflow = TRUE)
  data <- withr::with_seed(5, two_classes(100))
  frame <- as.data.frame(data$x)
  model <- a_model()
  history <- fit(
    model, function() list(frame[1:10, ], factor(data$y[1:10], 0:1), rep(1, 10)),
    epochs = 2, steps_per_epoch = 3, verbose = FALSE,
    validation_data = rows_of_generator(data$x, data$y), validation_steps = 2
  )
  expect_setequal(history$data, c("training", "validation"))
  iterator <- reticulate::py_iterator(rows_of_generator(data$x, data$y, last = 4))
  expect_s3_class(fit(model, iterator, verbose = FALSE), "tfmuster_history")
})

test_that("a generator that ends too early, or changes its batches, is an error with the step", {
  skip_without_python(tensorflow = TRUE)
  data <- withr::with_seed(6, two_classes(100))
  refused <- function(reason, ...) {
    error <- expect_kind(fit(a_model(), ..., verbose = FALSE), "data")
    expect_equal(error$reason, reason)
    error$found
  }
  early <- function() rows_of_generator(data$x, data$y, last = 7)
  found <- refused("generator-ended", early(), epochs = 2, steps_per_epoch = 5)
  expect_match(found, "2 of 5 steps.* pass number 2")
  expect_match(refused("generator-ended", early(), epochs = 2), "0 of unknown steps.* pass number 2")
  expect_match(refused("generator-ended", function() NULL), "nothing in the first call")
  calls <- 0
  wider <- function() {
    calls <<- calls + 1
    list(matrix(0, 4, 1 + calls), c(0, 1, 0, 1))
  }
  found <- refused("batch-shape", wider, steps_per_epoch = 3)
  expect_match(found, "batch 2 has the shapes 4x3, 4, .* 4x2, 4")
  expect_match(refused("batch-shape", function() data$x), "batch 1 is 100 x 2 values")
  expect_match(refused("lengths-differ", function() list(data$x, 0:1)), "batch 1 has the shapes 100x2, 2")
  expect_equal(refused("not-numbers", function() list(data$x, letters)), "a character vector")
  expect_match(refused("generator-labels", early(), data$y), "a vector of 100")
  expect_match(refused("generator-split", early(), validation_split = 0.2), "0.2")
  expect_error(
    fit(a_model(), function() stop("no {luck}", call. = FALSE), verbose = FALSE), "no {luck}", fixed = TRUE
  )
  expect_error(
    fit(a_model(), early_stop <- local({
      n <- 0
      function() {
        n <<- n + 1
        if (n == 3) rlang::abort("third", class = "mine")
        list(data$x, data$y)
      }
    }), steps_per_epoch = 5, verbose = FALSE),
    class = "mine"
  )
})

test_that("two workers train on the generators that one process trains on", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  lines <- c(
    "reticulate::import('keras')$utils$set_random_seed(1L)", own_model,
    "x <- reticulate::py_to_r(digits$x_train); y <- as.integer(reticulate::py_to_r(digits$y_train))",
    "set.seed(3)",
    "random <- function() { rows <- sample(256, 30); list(x[rows, , ], y[rows]) }",
    "calls <- 0",
    "ends <- function() { calls <<- calls + 1; if (calls < 6) list(x[calls + 1:7, , ], y[calls + 1:7]) }",
    "history <- fit(model, random, epochs = 2, steps_per_epoch = 40, verbose = FALSE,",
    "  validation_data = random, validation_steps = 3)",
    "fit(model, ends, verbose = FALSE)",
    "same <- reticulate::py_iterator(function() list(x[1:8, , ], y[1:8]))",
    "model$fit(same, steps_per_epoch = 2L, verbose = 0L)",
    "predicted <- predict(model, function() list(x[1:3, , ]), steps = 2)",
    "sums <- vapply(model$get_weights(), function(w) sum(abs(w)), 0)",
    "cat('numbers', format(c(history$value, sums, sum(abs(predicted)), calls), digits = 6), '\\n')"
  )
  one <- run_r(c("made <- strategy('default')", lines))
  expect_equal(one$status, 0, info = paste(one$output, collapse = "\n"))
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "library(tfmuster)", "made <- strategy('multi_worker_mirrored')", lines
  ))
  run_dir <- file.path(withr::local_tempdir(), "run")
  control <- launch_control(all_output = TRUE)
  shown <- capture.output(launch(script, workers = 2, run_dir = run_dir, control = control))
  expected <- numbers_of(one$output)
  several <- numbers_of(shown)
  expect_length(several, 2)
  for (each in several) expect_equal(each, expected[[1]], tolerance = 1e-4)
})
