test_that("a report lists every finding and raises nothing", {
  skip_without_python()
  report <- check_cluster(worker = c("a:1", "a:1", "b"), type = "worker", index = 7)
  expect_false(report$ok)
  findings <- as.data.frame(report)
  expect_named(findings, c("severity", "code", "where", "value", "message", "fix"))
  expect_gte(nrow(findings), 3)
  expect_snapshot(print(check_cluster(worker = c("a:1", "a:1"))))
})

test_that("a good cluster is said to be one", {
  skip_without_python()
  report <- check_cluster(two_workers(), type = "worker", index = 0)
  expect_true(report$ok)
  expect_snapshot(print(report))
  expect_identical(nrow(as.data.frame(report)), 0L)
})

test_that("sources are texts, lists, files and TF_CONFIG", {
  skip_without_python()
  expect_true(check_cluster('{"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}}')$ok)
  expect_true(check_cluster(list(worker = list("a:1", "b:2")), type = "worker", index = 0)$ok)
  withr::local_envvar(TF_CONFIG = "{")
  expect_false(check_cluster()$ok)
})
