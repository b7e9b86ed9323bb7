test_that("values are shared in one process", {
  skip_without_python()
  value <- list(rate = 0.1, names = c("a", "b"), frame = data.frame(x = 1:2), nothing = NULL)
  expect_identical(broadcast(value), value)
  expect_identical(gather(value), list(value))
  expect_null(broadcast())
})

test_that("workers get the chief's value, and the values of all", {
  skip_if_fast()
  skip_without_python()
  shared <- launch(function() {
    index <- current_task()$index
    list(broadcast(c(index, 5)), gather(data.frame(index = index, text = "\u00e9")))
  }, workers = 2, quiet = TRUE, run_dir = withr::local_tempdir())
  for (value in shared) {
    expect_identical(value[[1]], c(0, 5))
    expect_identical(do.call(rbind, value[[2]]), data.frame(index = 0:1, text = "\u00e9"))
  }
})

test_that("a function is refused", {
  skip_if_fast()
  skip_without_python()
  error <- tryCatch(
    launch(function() gather(mean), workers = 2, quiet = TRUE, run_dir = withr::local_tempdir()),
    error = identity
  )
  expect_match(conditionMessage(error$parent), "takes values that run nothing")
})

test_that("one worker of a machine comes first", {
  skip_without_python()
  expect_identical(chief_first(1 + 1), 2)
  skip_if_fast()
  folder <- withr::local_tempdir()
  made <- launch(function(folder) {
    chief_first({
      new <- !dir.exists(file.path(folder, "made"))
      if (new) dir.create(file.path(folder, "made"))
      new
    })
  }, folder, workers = 2, quiet = TRUE, run_dir = withr::local_tempdir())
  expect_identical(c(made[["worker 0"]], made[["worker 1"]]), c(TRUE, FALSE))
})
