test_that("a model is compiled, fitted, evaluated and used as R users do", {
  skip_without_python(tensorflow = TRUE)
  data <- withr::with_seed(1, two_classes())
  model <- a_model()
  history <- fit(
    model, data$x, data$y,
    epochs = 3, batch_size = 16, validation_split = 0.25, verbose = FALSE,
    validation_data = NULL, initial_epoch = 0, shuffle = FALSE
  )
  expect_s3_class(history, "tfmuster_history")
  expect_equal(unique(history$epoch), 1:3)
  expect_setequal(history$data, c("training", "validation"))
  fit(model, data$x, data$y, validation_data = list(data$x, factor(data$y)), verbose = FALSE)
  scores <- evaluate(model, data$x, data$y)
  expect_named(scores, c("accuracy", "loss"), ignore.order = TRUE)
  expect_equal(dim(predict(model, data$x)), c(120, 2))
  expect_length(evaluate(model, data$x[1, , drop = FALSE], data$y[1]), 2)
  expect_output(expect_identical(summary(model), model), "Total params")
})

test_that("factors, data frames and bare vectors are the same as matrices of numbers", {
  skip_without_python(tensorflow = TRUE)
  data <- withr::with_seed(2, two_classes())
  weights <- function(x, y) {
    model <- a_model()
    fit(model, x, y, epochs = 2, shuffle = FALSE, verbose = FALSE)
    model$get_weights()
  }
  plain <- weights(data$x, data$y)
  labels <- c("no", "yes")[data$y + 1]
  expect_equal(weights(data$x, factor(labels)), plain)
  expect_equal(weights(as.data.frame(data$x), data.frame(labels = factor(labels))), plain)
  expect_equal(weights(data$x, data$y == 1), plain)
  expect_equal(weights(data$x, matrix(data$y)), plain)
  model <- a_model()
  fit(model, data$x, data$y, verbose = FALSE)
  expect_s3_class(fit(model, data$x, matrix(data$y), verbose = FALSE), "tfmuster_history")
  one <- a_model(columns = 1L)
  expect_equal(dim(predict(one, c(1, 2, 3))), c(3, 2))
})

test_that("what no model can take is refused by name", {
  skip_without_python(tensorflow = TRUE)
  model <- a_model()
  x <- matrix(1, 4, 2)
  reason <- function(expr) expect_kind(expr, "data")$reason
  expect_equal(reason(fit(model, x, c("a", "b", "a", "b"))), "not-numbers")
  expect_equal(reason(fit(model, x, factor(c("a", NA, "b", "b")))), "missing")
  error <- expect_kind(fit(model, data.frame(a = 1:4, b = Sys.Date()), 1:4), "data")
  expect_equal(error$found, "`b` is of class Date")
  expect_equal(reason(predict(model, letters)), "not-numbers")
})

test_that("objects that are no numbers are refused by their class, before Keras prints anything", {
  skip_without_python(tensorflow = TRUE)
  model <- a_model()
  x <- matrix(1, 4, 2)
  refused <- function(expr, reason, found) {
    printed <- utils::capture.output(error <- expect_kind(expr, "data"))
    expect_equal(printed, character())
    expect_equal(error[c("reason", "found")], list(reason = reason, found = found))
    # What an argument must be is the message itself.
    if (reason != "argument") expect_true(nzchar(error$fix))
  }
  not_numbers <- function(expr, class) refused(expr, "not-numbers", paste("an object of class", class))
  sparse <- Matrix::Matrix(x * diag(4)[, 1:2], sparse = TRUE)
  not_numbers(fit(model, sparse, 1:4 %% 2), class(sparse)[1])
  not_numbers(predict(model, sparse), class(sparse)[1])
  refused(fit(model, y ~ x, 1:4 %% 2), "no-table", "`data`: none")
  not_numbers(fit(model, x, y ~ x), "formula")
  not_numbers(fit(model, x, as.Date("2026-01-01") + 0:3), "Date")
  not_numbers(fit(model, x, as.POSIXct("2026-01-01", tz = "UTC") + 0:3), "POSIXct")
  not_numbers(fit(model, x, complex(4, 1:4, 1)), "complex")
  not_numbers(fit(model, x, as.raw(0:3)), "raw")
  not_numbers(evaluate(model, x, as.environment(list())), "environment")
  not_numbers(fit(model, x, c(0, 1, 0, 1), validation_data = list(sparse, 1:4 %% 2)), class(sparse)[1])
  argument <- function(..., found) refused(fit(model, x, c(0, 1, 0, 1), ...), "argument", found)
  argument(epochs = 2.5, found = "2.5")
  argument(epochs = 0, found = "0")
  argument(batch_size = -1, found = "-1")
  argument(validation_split = 2, found = "2")
  argument(steps_per_epoch = 1.5, found = "1.5")
  refused(fit(model, cbind(x, 1), c(0, 1, 0, 1)), "columns", "4 x 3 values")
  refused(predict(model, cbind(x, 1)), "columns", "4 x 3 values")
  refused(predict(model, 1:4), "columns", "a vector of 4")
})

test_that("labels that are no class of the model are refused", {
  skip_without_python(tensorflow = TRUE)
  x <- matrix(1, 4, 2)
  outside <- function(model, y, found) {
    error <- expect_kind(fit(model, x, y, verbose = FALSE), "data")
    expect_equal(error[c("reason", "found")], list(reason = "labels", found = found))
  }
  outside(a_model(), c(1, 2, 1, 2), "labels from 1 to 2")
  outside(a_model(), c(-1, 0, 1, 0), "labels from -1 to 1")
  outside(a_model(), c(0, 0.5, 1, 0), "labels with decimals")
  outside(a_model(), factor(letters[1:4]), "labels from 0 to 3")
  outside(a_model(), reticulate::np_array(c(1L, 2L, 1L, 2L)), "labels from 1 to 2")
  binary <- compile(a_model(units = 1L), loss = "binary_crossentropy")
  outside(binary, c(1, 2, 1, 2), "labels from 1 to 2")
  expect_s3_class(fit(binary, x, c(0, 0.5, 1, 0), verbose = FALSE), "tfmuster_history")
  named <- compile(a_model(), loss = "sparse_categorical_crossentropy")
  outside(named, c(0, 1, 2, 0), "labels from 0 to 2")
  losses <- reticulate::import("keras")$losses
  ignores <- compile(a_model(), loss = losses$SparseCategoricalCrossentropy(TRUE, ignore_class = -1L))
  expect_s3_class(fit(ignores, x, c(-1, 0, 1, 0), verbose = FALSE), "tfmuster_history")
})

test_that("the columns of a data frame are found by their names", {
  skip_without_python(tensorflow = TRUE)
  data <- withr::with_seed(7, two_classes())
  frame <- data.frame(a = data$x[, 1], b = data$x[, 2])
  model <- a_model()
  fit(model, frame, data$y, verbose = FALSE)
  expect_equal(predict(model, frame[2:1]), predict(model, frame))
  expect_equal(evaluate(model, frame[2:1], data$y), evaluate(model, frame, data$y))
  differ <- function(frame, found) {
    error <- expect_kind(predict(model, frame), "data")
    expect_equal(error[c("reason", "found")], list(reason = "columns", found = found))
  }
  differ(data.frame(a = 1, c = 2), "no `b`; also `c`")
  differ(data.frame(a = 1), "no `b`")
  differ(cbind(frame, y = data$y), "also `y`")
})

test_that("missing values are refused, with their number and the first row", {
  skip_without_python(tensorflow = TRUE)
  model <- a_model()
  x <- matrix(1, 4, 2)
  y <- c(0, 1, 0, 1)
  missing <- function(expr, found) {
    error <- expect_kind(expr, "data")
    expect_equal(error[c("reason", "found")], list(reason = "missing", found = found))
  }
  missing(fit(model, x, c(0L, NA, 0L, NA)), "2 of 4 are NA or NaN, the first in row 2")
  missing(fit(model, x, factor(c("a", "b", "b", NA))), "1 of 4 are NA or NaN, the first in row 4")
  hole <- replace(x, 7, NaN)
  missing(fit(model, hole, y), "1 of 8 are NA or NaN, the first in row 3")
  missing(fit(model, as.data.frame(hole), y), "1 of 8 are NA or NaN, the first in row 3")
  missing(fit(model, x, y, validation_data = list(hole, y)), "1 of 8 are NA or NaN, the first in row 3")
  missing(evaluate(model, hole, y), "1 of 8 are NA or NaN, the first in row 3")
  missing(predict(model, hole), "1 of 8 are NA or NaN, the first in row 3")
})

test_that("data and labels that do not belong together are told in R's own terms", {
  skip_without_python(tensorflow = TRUE)
  model <- a_model()
  x <- matrix(1, 4, 2)
  y <- c(0, 1, 0, 1)
  told <- function(expr, reason, found) {
    error <- expect_kind(expr, "data")
    expect_equal(error[c("reason", "found")], list(reason = reason, found = found))
  }
  told(fit(model, x, y[1:3]), "lengths-differ", "4 x 2 values as data, a vector of 3 as labels")
  told(fit(model, as.vector(x), y), "lengths-differ", "a vector of 8 as data, a vector of 4 as labels")
  told(evaluate(model, list(x, x[1:3, ]), y), "lengths-differ", paste(
    "(4 x 2 values, 3 x 2 values) as data, a vector of 4 as labels"
  ))
  told(fit(model, x), "no-labels", "no `y` with 4 x 2 values")
  told(evaluate(model, x), "no-labels", "no `y` with 4 x 2 values")
  expect_equal(in_words(NULL), "none")
  told(fit(model, x, y, validation_data = list(x)), "validation-data", "a list of 1")
  told(fit(model, x, y, validation_data = x), "validation-data", "an object of class matrix")
  told(fit(model, x, y, validation_data = list(x, y[1:2])), "lengths-differ", paste(
    "4 x 2 values as data, a vector of 2 as labels"
  ))
  array <- reticulate::np_array(x)
  told(fit(model, array, y[1:3]), "lengths-differ", "4 x 2 values as data, a vector of 3 as labels")
  told(fit(model, array), "no-labels", "no `y` with 4 x 2 values")
  slices <- reticulate::import("tensorflow")$data$Dataset$from_tensor_slices
  dataset <- slices(reticulate::tuple(x, y))$batch(2L)
  history <- fit(model, dataset, validation_data = dataset, verbose = FALSE)
  expect_setequal(history$data, c("training", "validation"))
  weighted <- fit(model, x, y, validation_data = list(x, y, c(1, 1, 0, 0)), verbose = FALSE)
  expect_setequal(weighted$data, c("training", "validation"))
  # No loss of Keras's compares anything here.
  unlabelled <- reticulate::import("keras")$Sequential(list())
  expect_false(needs_labels(unlabelled))
})

# A model whose weights stay, and data whose loss is 0.5099, or 1.4245 if class 1 has the weight 5.
weighed <- function(units = 1L, loss = "binary_crossentropy") {
  data <- withr::with_seed(1, list(x = matrix(stats::rnorm(128), 64)))
  data$y <- as.integer(data$x[, 1] > 0)
  data$w <- ifelse(data$y == 1, 5, 1)
  data$text <- c("no", "yes")[data$y + 1]
  keras <- reticulate::import("keras")
  layer <- keras$layers$Dense(units, if (units == 1) "sigmoid" else "softmax", kernel_initializer = "ones")
  data$model <- keras$Sequential(list(keras$Input(reticulate::tuple(2L)), layer))
  compile(data$model, optimizer = keras$optimizers$SGD(0), loss = loss)
  data$loss <- function(x = data$x, y = data$y, ...) {
    fit(data$model, x, y, batch_size = 16, verbose = FALSE, ...)$value[1]
  }
  data
}

test_that("class_weight has the numbers or the levels of the classes as names, or their order", {
  skip_without_python(tensorflow = TRUE)
  by_number <- weighed()
  right <- function(loss) expect_equal(loss, 1.4245, tolerance = 1e-4)
  expect_equal(by_number$loss(), 0.5099, tolerance = 1e-4)
  right(by_number$loss(class_weight = list("0" = 1, "1" = 5)))
  right(by_number$loss(class_weight = c("1" = 5)))
  right(by_number$loss(class_weight = c(1, 5)))
  right(by_number$loss(class_weight = tapply(by_number$w, by_number$y, mean)))
  right(by_number$loss(class_weight = reticulate::py_dict(c(0L, 1L), c(1, 5))))
  right(by_number$loss(class_weight = reticulate::dict("0" = 1, "1" = 5)))
  right(by_number$loss(y = reticulate::np_array(by_number$y), class_weight = c("0" = 1, "1" = 5)))
  slices <- reticulate::import("tensorflow")$data$Dataset$from_tensor_slices
  dataset <- slices(reticulate::tuple(by_number$x, by_number$y))$batch(16L)
  right(by_number$loss(dataset, NULL, class_weight = c("0" = 1, "1" = 5)))
  # Class 1 has the weight 1, in a dataset, too.
  expect_equal(
    by_number$loss(dataset, NULL, class_weight = c("0" = 2)), by_number$loss(class_weight = c("0" = 2)),
    tolerance = 1e-5
  )
  by_level <- weighed()
  labels <- factor(by_level$text)
  right(by_level$loss(y = labels, class_weight = c(yes = 5, no = 1)))
  right(by_level$loss(y = labels, class_weight = c(1, 5)))
  right(by_level$loss(y = labels, class_weight = reticulate::py_dict(c(0L, 1L), c(1, 5))))
  right(by_level$loss(y = factor(labels, c("yes", "no")), class_weight = list(no = 1, yes = 5)))
  # The labels are numbers, the model was fitted to a factor.
  right(by_level$loss(class_weight = c(no = 1, yes = 5)))
  right(by_level$loss(class_weight = c("0" = 1, "1" = 5)))
  frame <- data.frame(a = by_number$x[, 1], b = by_number$x[, 2], label = by_number$text)
  right(weighed()$loss(label ~ ., NULL, data = frame, class_weight = c(no = 1, yes = 5)))
  right(weighed()$loss(y = data.frame(label = labels), class_weight = c(no = 1, yes = 5)))
  # A level may be one of other data.
  rare <- factor(by_number$text, c("no", "yes", "perhaps"))
  right(weighed()$loss(y = rare, class_weight = c(no = 1, yes = 5, perhaps = 9)))
  one_hot <- weighed(2L, "categorical_crossentropy")
  columns <- cbind(1 - one_hot$y, one_hot$y)
  expect_equal(
    one_hot$loss(y = columns, class_weight = c("1" = 5)), one_hot$loss(y = columns, sample_weight = one_hot$w)
  )
})

test_that("class_weight that Keras would ignore or misread is refused", {
  skip_without_python(tensorflow = TRUE)
  by_number <- weighed()
  refused <- function(class_weight, found, ..., of = by_number) {
    error <- expect_kind(of$loss(..., class_weight = class_weight), "data")
    expect_equal(error[c("reason", "found")], list(reason = "class-weight", found = found))
    error$fix
  }
  refused(c(no = 1, yes = 5), "the names \"no\", \"yes\"")
  refused(c("0" = 1, 5), "the name \"\"")
  refused(c("0.5" = 1), "the name \"0.5\"")
  refused(reticulate::dict(no = 1), "the name \"no\"")
  refused(c("0" = 1, "1" = 5, "0" = 2), "another weight for \"0\"")
  refused(list("0" = 1, "1" = NA), "NA")
  refused(c("0" = 1, "1" = -5), "-5")
  refused(list("0" = 1, "1" = "5"), "\"5\"")
  refused(list("0" = 1, "1" = 1:2), "a vector of 2")
  refused(factor(c("0" = 1)), "an object of class factor")
  refused(c("1" = 1, "2" = 5), "a weight for class 2; the labels are 0, 1")
  refused(c(1, 5, 2), "weights for class 0, 1, 2; the labels are 0, 1")
  refused(5, "weights for class 0; the labels are 0, 1")
  refused(c("2" = 5), "a weight for class 2; the labels are 0, 1", y = reticulate::np_array(by_number$y))
  refused(c("1" = 5), "labels with decimals", y = by_number$y / 2)
  refused(c("1" = 5), "labels: (a vector of 64)", y = list(by_number$y))
  refused(c("1" = 5), "`sample_weight`: a vector of 64", sample_weight = by_number$w)
  several <- weighed(2L)
  refused(c("1" = 5), "labels: 64 x 2 values", y = cbind(by_number$y, by_number$y), of = several)
  slices <- reticulate::import("tensorflow")$data$Dataset$from_tensor_slices
  dataset <- slices(reticulate::tuple(by_number$x, by_number$y))$batch(16L)
  refused(c("-1" = 5), "a weight for class -1", x = dataset, y = NULL)
  by_level <- weighed()
  labels <- factor(by_level$text)
  expect_equal(
    refused(c(no = 1, ja = 5), "the name \"ja\"", y = labels, of = by_level), "The levels are \"no\", \"yes\""
  )
  refused(c("0" = 1, "1" = 5), "the names \"0\", \"1\"", y = labels, of = by_level)
})

test_that("sample_weight is a weight for each row, also of a validation", {
  skip_without_python(tensorflow = TRUE)
  data <- weighed()
  right <- function(loss) expect_equal(loss, 1.4245, tolerance = 1e-4)
  right(data$loss(sample_weight = data$w))
  right(data$loss(sample_weight = as.integer(data$w)))
  right(data$loss(sample_weight = matrix(data$w)))
  right(data$loss(sample_weight = data.frame(data$w)))
  right(data$loss(sample_weight = reticulate::np_array(data$w)))
  right(evaluate(data$model, data$x, data$y, sample_weight = data$w)$loss)
  validated <- fit(
    data$model, data$x, data$y, validation_data = list(data$x, data$y, matrix(data$w)), verbose = FALSE
  )
  right(validated$value[validated$data == "validation"])
  # One row is no single number.
  expect_equal(
    evaluate(data$model, data$x[1, , drop = FALSE], data$y[1], sample_weight = 3)$loss,
    3 * evaluate(data$model, data$x[1, , drop = FALSE], data$y[1])$loss,
    tolerance = 1e-5
  )
  refused <- function(reason, found, ..., x = data$x, y = data$y) {
    for (method in list(fit, evaluate)) {
      error <- expect_kind(method(data$model, x, y, ..., verbose = FALSE), "data")
      expect_equal(error[c("reason", "found")], list(reason = reason, found = found))
    }
  }
  short <- "64 x 2 values as data, a vector of 3 as weights"
  refused("lengths-differ", short, sample_weight = data$w[1:3])
  refused("lengths-differ", short, sample_weight = reticulate::np_array(data$w[1:3]))
  refused("missing", "1 of 64 are NA or NaN, the first in row 3", sample_weight = replace(data$w, 3, NA))
  refused("not-numbers", "an object of class character", sample_weight = data$text)
  batches <- function() list(data$x, data$y)
  refused("batch-weights", "weights: a vector of 64", x = batches, y = NULL, sample_weight = data$w)
  dataset <- own_rows(data$x, data$y, batch_size = 16)
  refused("batch-weights", "weights: a vector of 64", x = dataset, y = NULL, sample_weight = data$w)
  right(data$loss(own_rows(data$x, data$y, sample_weight = matrix(data$w), batch_size = 16), NULL))
  right(data$loss(function() list(data$x, data$y, matrix(data$w)), NULL, steps_per_epoch = 1))
  told <- expect_kind(data$loss(validation_data = list(data$x, data$y, data$w[1:3])), "data")
  expect_match(conditionMessage(told), "one weight for each row of the data of validation")
})

test_that("several outputs have a list of weights, or one vector for all", {
  skip_without_python(tensorflow = TRUE)
  data <- weighed()
  keras <- reticulate::import("keras")
  input <- keras$Input(reticulate::tuple(2L))
  output <- function() keras$layers$Dense(1L, "sigmoid", kernel_initializer = "ones")(input)
  model <- keras$Model(input, list(output(), output()))
  compile(model, optimizer = keras$optimizers$SGD(0), loss = "binary_crossentropy")
  loss <- function(weights) evaluate(model, data$x, list(data$y, data$y), sample_weight = weights)$loss
  expect_equal(loss(list(data$w, data$w)), 2 * 1.4245, tolerance = 1e-4)
  expect_equal(loss(data$w), 2 * 1.4245, tolerance = 1e-4)
  expect_equal(expect_kind(loss(list(data$w, 1)), "data")$reason, "lengths-differ")
})

test_that("callbacks written in R are called with epochs and metrics, and their errors have their names", {
  skip_without_python(tensorflow = TRUE)
  data <- withr::with_seed(3, two_classes())
  seen <- list()
  callback <- callback_r(
    on_epoch_end = function(epoch, logs) seen[[length(seen) + 1]] <<- c(epoch, logs$loss),
    on_train_begin = function(logs) seen[[1]] <<- "begin"
  )
  history <- fit(a_model(), data$x, data$y, epochs = 2, callbacks = list(callback), verbose = FALSE)
  expect_equal(seen[[1]], "begin")
  expect_equal(vapply(seen[-1], `[`, numeric(1), 1), c(0, 1))
  expect_equal(vapply(seen[-1], `[`, numeric(1), 2), history$value[history$metric == "loss"])
  fails <- callback_r(on_epoch_end = function(epoch, logs) stop("no {luck}"))
  expect_error(
    fit(a_model(), data$x, data$y, callbacks = list(fails), verbose = FALSE),
    "on_epoch_end() failed: no {luck}",
    fixed = TRUE
  )
  expect_equal(expect_kind(callback_r(on_epoch = print), "data")$reason, "callback")
  expect_equal(expect_kind(callback_r(function() 1), "data")$found, "argument 1 has no name")
  expect_equal(expect_kind(callback_r(on_epoch_end = 1), "data")$found, "`on_epoch_end` is no function")
})

test_that("classes of Keras that R extends train on several workers, with the rows of all", {
  skip_without_python(tensorflow = TRUE)
  train <- function(strategy) {
    keras <- reticulate::import("keras")
    tf <- reticulate::import("tensorflow")
    keras$utils$set_random_seed(1L)
    layer <- reticulate::PyClass("Covariance", inherit = keras$layers$Layer, defs = list(
      call = function(self, x) {
        rows <- all_rows(x)
        centered <- tf$subtract(rows, tf$reduce_mean(rows, axis = 0L))
        self$add_loss(tf$reduce_mean(tf$square(tf$matmul(centered, centered, transpose_a = TRUE))))
        x
      }
    ))
    metric <- reticulate::PyClass("Error", inherit = keras$metrics$Mean, defs = list(
      update_state = function(self, y, predicted, sample_weight = NULL) {
        keras$metrics$Mean$update_state(self, tf$reduce_mean(tf$abs(tf$subtract(y, predicted))))
      }
    ))
    callback <- reticulate::PyClass("Quiet", inherit = keras$callbacks$Callback, defs = list())
    x <- matrix(sin(1:246), 41)
    with(strategy$scope(), {
      layers <- list(keras$Input(list(6L)), keras$layers$Dense(4L), layer(), keras$layers$Dense(1L))
      model <- keras$Sequential(layers)
      model$compile("sgd", "mse", metrics = list(metric(name = "error")))
    })
    fitted <- model$fit(
      x, x[, 1, drop = FALSE],
      batch_size = 16L, epochs = 2L, verbose = 0L, shuffle = FALSE, callbacks = list(callback())
    )
    unlist(fitted$history)
  }
  environment(train) <- asNamespace("tfmuster")
  alone <- train(strategy("default"))
  two <- launch(train, workers = 2, run_dir = withr::local_tempfile(), quiet = TRUE)
  for (history in two) expect_equal(history, alone, tolerance = 1e-5)
})

test_that("one callback needs no list", {
  skip_without_python(tensorflow = TRUE)
  data <- withr::with_seed(3, two_classes())
  epochs <- NULL
  one <- callback_r(on_epoch_end = function(epoch, logs) epochs <<- c(epochs, epoch))
  fit(a_model(), data$x, data$y, epochs = 2, callbacks = one, verbose = FALSE)
  expect_equal(epochs, 0:1)
  error <- expect_kind(fit(a_model(), data$x, data$y, callbacks = function(...) 1), "data")
  expect_equal(error[c("reason", "found")], list(reason = "callback", found = "an object of class function"))
})

test_that("an R function in a foreign thread is an error, and R lives on", {
  skip_without_python(tensorflow = TRUE)
  run <- run_r(c(
    "invisible(tfmuster_available())",
    "said <- reticulate::py_run_string('",
    "import threading",
    "def from_thread(f):",
    "    caught = []",
    "    def call():",
    "        try:",
    "            caught.append(f())",
    "        except Exception as error:",
    "            caught.append(str(error))",
    "    thread = threading.Thread(target=call)",
    "    thread.start()",
    "    thread.join(30)",
    "    return caught",
    "def first_of(f):",
    "    import tensorflow as tf",
    "    try:",
    "        return list(tf.data.Dataset.from_generator(f, output_types=tf.float32).batch(1))",
    "    except Exception as error:",
    "        return str(error)",
    "')",
    "cat(unlist(said$from_thread(function() 1)), sep = '\\n')",
    "generator <- reticulate::py_iterator(function() 1)",
    "cat(unlist(said$from_thread(generator$`__next__`)), sep = '\\n')",
    "e <- said$first_of(function() list(1))",
    "cat(grepl('not R.s', e), 'alive\\n')"
  ))
  expect_match(run$output, "^An R function was called by a thread that is not R's", all = FALSE)
  expect_match(run$output, "^(1|An R generator was called by a thread)", all = FALSE)
  expect_match(run$output, "TRUE alive", all = FALSE)
})

test_that("methods of keras3, which are for a more specific class, win in either order", {
  skip_without_python(tensorflow = TRUE)
  model <- a_model()
  classes <- class(model)
  place <- function(name) which(classes == name)
  expect_lt(place("keras.src.models.model.Model"), place("keras.src.trainers.trainer.Trainer"))
  registerS3method(
    "fit", "keras.src.models.model.Model", function(object, ...) "theirs",
    envir = asNamespace("generics")
  )
  methods <- asNamespace("generics")$.__S3MethodsTable__.
  withr::defer(rm(list = "fit.keras.src.models.model.Model", envir = methods))
  expect_equal(fit(model), "theirs")
})

test_that("Sys.setenv(TF_CONFIG = ) after Python has started is repaired by strategy()", {
  skip_without_python(tensorflow = TRUE)
  run <- run_r(c(
    "invisible(reticulate::py_config())",
    sprintf("Sys.setenv(TF_CONFIG = '%s')", sprintf(
      '{"cluster":{"worker":["127.0.0.1:%d"]},"task":{"type":"worker","index":0}}', free_ports(1)
    )),
    "made <- strategy('multi_worker_mirrored')",
    "cat(made$num_replicas_in_sync, reticulate::import('os')$environ[['TF_CONFIG']])"
  ))
  expect_match(run$output, "^1 .*cluster", all = FALSE)
})

test_that("own_rows() takes R's data, and trains in one process as the data themselves", {
  skip_without_python(tensorflow = TRUE)
  data <- withr::with_seed(3, two_classes(50))
  weights <- function(...) {
    model <- a_model()
    fit(model, ..., epochs = 2, shuffle = FALSE, verbose = FALSE)
    model$get_weights()
  }
  frame <- data.frame(a = data$x[, 1], b = data$x[, 2])
  own <- own_rows(frame, factor(data$y), batch_size = 16)
  expect_equal(weights(own), weights(data$x, data$y, batch_size = 16))
  expect_error(own_rows(frame, data$y[-1]), class = "tfmuster_error_data")
  expect_error(own_rows(own, batch_size = 4), "only with arrays", class = "tfmuster_error_data")
  expect_error(own_rows(frame, batch_size = 1.5), "must be a whole number", class = "tfmuster_error_data")
})

test_that("of several workers only the chief prints its epochs", {
  withr::local_envvar(TFMUSTER_IS_CHIEF = "0", TFMUSTER_INDEPENDENT = NA)
  expect_equal(as_verbose(TRUE), 0)
  expect_equal(as_verbose(2), 2)
  withr::local_envvar(TFMUSTER_INDEPENDENT = "1")
  expect_equal(as_verbose(TRUE), 2)
  withr::local_envvar(TFMUSTER_IS_CHIEF = "1", TFMUSTER_INDEPENDENT = NA)
  expect_equal(as_verbose(TRUE), 2)
  withr::local_envvar(TFMUSTER_IS_CHIEF = NA)
  expect_equal(as_verbose(TRUE), 2)
  expect_equal(as_verbose(FALSE), 0)
})

test_that("fit() works after TF_CONFIG has been removed", {
  skip_without_python(tensorflow = TRUE)
  withr::local_envvar(TF_CONFIG = NA)
  use_tf_config(cluster_task(two_workers(), "worker", 1))
  model <- a_model()
  points <- two_classes()
  error <- expect_kind(fit(model, points$x, points$y, verbose = FALSE), "strategy")
  expect_equal(error$reason, "not-distributed")
  Sys.unsetenv("TF_CONFIG")
  expect_length(fit(model, points$x, points$y, verbose = FALSE)$value, 2)
})

test_that("fit() of a data set or a generator is quiet, and shuffles what it can", {
  skip_if_fast()
  code <- c(
    "model <- mnist_model('softmax')", "digits <- synthetic(1, 64, 64)",
    "data <- batches(digits$x_train, digits$y_train, 32, seed = 1)",
    "fit(model, data, epochs = 1, verbose = FALSE)",
    "x <- reticulate::py_to_r(digits$x_train); y <- reticulate::py_to_r(digits$y_train)",
    "fit(model, function() list(x[1:32, , ], y[1:32]), steps_per_epoch = 2, verbose = FALSE)",
    "cat('trained\n')"
  )
  skip_without_python(tensorflow = TRUE)
  done <- run_r(code)
  expect_true("trained" %in% done$output)
  expect_no_match(done$output, "shuffle")
})

test_that("data with other dimensions than the model's are refused, but for a last one of 1", {
  skip_without_python(tensorflow = TRUE)
  model <- mnist_model("softmax")
  error <- expect_kind(predict(model, matrix(0, 4, 784)), "data")
  expect_equal(error$reason, "columns")
  expect_match(conditionMessage(error), "n x 28 x 28[.].*4 x 784 values")
  expect_equal(dim(predict(model, array(0, c(4, 28, 28, 1)))), c(4, 10))
  one <- a_model(columns = 1L)
  expect_equal(dim(predict(one, c(0.1, 0.2, 0.3))), c(3, 2))
  keras <- reticulate::import("keras")
  numbers <- keras$Sequential(list(keras$Input(shape = reticulate::tuple()), keras$layers$Rescaling(2)))
  expect_equal(as.vector(predict(numbers, 1:3)), c(2, 4, 6))
})

test_that("an optimizer that Keras does not have is refused with the one that was meant", {
  skip_without_python(tensorflow = TRUE)
  error <- expect_kind(compile(a_model(), optimizer = "adm", loss = "mse"), "model")
  expect_equal(error$found, "\"adm\"")
  expect_match(error$fix, "adam")
  compile(a_model(), optimizer = "Adam", loss = "mse")
})
