# Formulas and data frames with factors.
a_table <- function(n = 60) {
  frame <- data.frame(
    color = factor(rep(c("red", "green", "blue"), length.out = n), c("red", "green", "blue")),
    size = seq_len(n) / n, shape = rep(c("round", "flat"), each = n / 2)
  )
  frame$kind <- factor(ifelse(frame$color == "red", "a", ifelse(frame$size > 0.5, "b", "c")))
  frame
}

dense <- function(columns, units, activation = NULL) {
  keras <- reticulate::import("keras")
  keras$utils$set_random_seed(1L)
  input <- keras$Input(reticulate::tuple(as.integer(columns)))
  keras$Sequential(list(input, keras$layers$Dense(units, activation)))
}

for_classes <- function(model) {
  loss <- reticulate::import("keras")$losses$SparseCategoricalCrossentropy(from_logits = TRUE)
  compile(model, optimizer = reticulate::import("keras")$optimizers$SGD(0.5), loss = loss)
}

test_that("a formula is the matrix of its columns, and predictions are classes", {
  skip_without_python(tensorflow = TRUE)
  frame <- a_table()
  by_formula <- for_classes(dense(4, 3L))
  fit(by_formula, kind ~ ., data = frame, epochs = 30, verbose = FALSE)
  by_matrix <- for_classes(dense(4, 3L))
  x <- model.matrix(~ color + size + shape, frame)[, -1]
  fit(by_matrix, unname(x), as.integer(frame$kind) - 1L, epochs = 30, verbose = FALSE)
  expect_equal(by_formula$get_weights(), by_matrix$get_weights())
  expect_equal(predict(by_formula, frame), predict(by_matrix, unname(x)))
  classes <- predict(by_formula, frame, type = "class")
  expect_equal(levels(classes), c("a", "b", "c"))
  expect_equal(as.integer(classes), max.col(predict(by_formula, frame), "first"))
  expect_gt(mean(classes == frame$kind), 0.8)
  # Another order of levels, of rows and of columns, and text: the same numbers.
  other <- data.frame(shape = factor(frame$shape), size = frame$size, color = as.character(frame$color))
  expect_equal(predict(by_formula, other[1:7, ]), predict(by_formula, frame)[1:7, ])
  loss <- evaluate(by_formula, frame)$loss
  expect_equal(evaluate(by_formula, kind ~ ., data = frame)$loss, loss)
  expect_equal(evaluate(by_matrix, unname(x), as.integer(frame$kind) - 1L)$loss, loss, tolerance = 1e-6)
})

test_that("a data frame with factors needs no formula", {
  skip_without_python(tensorflow = TRUE)
  frame <- a_table()
  predictors <- c("color", "size", "shape")
  model <- for_classes(dense(4, 3L))
  history <- fit(
    model, frame[predictors], frame$kind, epochs = 2, verbose = FALSE,
    validation_data = list(frame[predictors], factor(frame$kind, c("c", "b", "a")))
  )
  values <- split(history$value[history$metric == "loss"], history$data[history$metric == "loss"])
  expect_equal(values$validation[1], evaluate(model, frame[predictors], frame$kind)$loss, tolerance = 0.2)
  expect_s3_class(predict(model, frame, type = "class"), "factor")
  by_formula <- for_classes(dense(4, 3L))
  fit(by_formula, kind ~ ., data = frame, epochs = 2, verbose = FALSE, validation_data = frame)
  expect_equal(by_formula$get_weights(), model$get_weights())
})

test_that("one output has two classes", {
  skip_without_python(tensorflow = TRUE)
  frame <- data.frame(x = c(-2, -1, 1, 2), side = factor(c("left", "left", "right", "right")))
  for (activation in list("sigmoid", NULL)) {
    model <- dense(1, 1L, activation)
    model$set_weights(list(matrix(1), array(0)))
    loss <- reticulate::import("keras")$losses$BinaryCrossentropy(from_logits = is.null(activation))
    compile(model, optimizer = "sgd", loss = loss)
    fit(model, side ~ x, data = frame, verbose = FALSE)
    expect_equal(predict(model, data.frame(x = c(3, -3)), type = "class"), factor(c("right", "left")))
  }
})

test_that("an unknown level is an error with its name, and so is what a formula can't be", {
  skip_without_python(tensorflow = TRUE)
  frame <- a_table()
  model <- for_classes(dense(4, 3L))
  refused <- function(expr, reason, found) {
    error <- expect_kind(expr, "data")
    expect_equal(error$reason, reason)
    expect_match(error$found, found, fixed = TRUE)
  }
  refused(predict(model, frame), "no-table", "no such table")
  refused(fit(model, kind ~ .), "no-table", "`data`: none")
  refused(fit(model, kind ~ ., 1:60, data = frame), "no-table", "`y`")
  refused(fit(model, kind ~ colour, data = frame), "formula", "no column `colour`")
  refused(fit(model, kind ~ scale(size), data = frame), "formula", "depends on all rows")
  refused(fit(model, kind ~ size, data = frame), "columns", "60 x 1 values")
  # What could not be trained is not remembered.
  expect_null(known_table(model))
  fit(model, kind ~ ., data = frame, verbose = FALSE)
  new <- frame[1:3, ]
  new$color <- c("red", "purple", "green")
  refused(predict(model, new), "level", "\"purple\" in `color`")
  refused(predict(model, frame[c("color", "size")]), "columns", "no `shape`")
  other <- frame
  levels(other$kind)[1] <- "z"
  refused(evaluate(model, other), "level", "\"z\" in `kind`")
  missing <- frame
  missing$color[2] <- NA
  refused(predict(model, missing), "missing", "row 2")
  refused(predict(a_model(), matrix(1, 3, 2), type = "class"), "classes", "fitted to no factor")
})

test_that("several workers train on a table as one process does, and the model comes back with its levels", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  frame <- a_table()
  one <- for_classes(dense(4, 3L))
  fit(one, kind ~ ., data = frame, batch_size = 20, epochs = 3, verbose = FALSE, shuffle = FALSE)
  train <- function(strategy, frame) {
    model <- with(strategy$scope(), for_classes(dense(4, 3L)))
    fit(model, kind ~ ., data = frame, batch_size = 20, epochs = 3, verbose = FALSE, shuffle = FALSE)
    model
  }
  values <- launch(
    train, frame, workers = 2, quiet = TRUE, run_dir = file.path(withr::local_tempdir(), "run"),
    control = launch_control(globals = list(for_classes = for_classes, dense = dense))
  )
  expect_equal(values[[1]]$get_weights(), one$get_weights(), tolerance = 1e-5)
  expect_equal(predict(values[[1]], frame, type = "class"), predict(one, frame, type = "class"))
})

test_that("a table of another machine runs no code", {
  expect_true(is_safe_table(list(formula = "y ~ a + b:c")))
  expect_true(is_safe_table(list(formula = "`an odd name` ~ log")))
  expect_true(is_safe_table(NULL))
  expect_false(is_safe_table(list(formula = "y ~ system('true')")))
  expect_false(is_safe_table(list(formula = "y ~ (function() stop())()")))
  expect_false(is_safe_table(list(formula = "y ~ base::stop(a)")))
  expect_false(is_safe_table(list(formula = "y ~ (")))
})
