test_that("a cluster prints its tasks, counts them, and compares equal to its like", {
  skip_without_python()
  cluster <- cluster_spec(worker = c("a:1", "b:2"), ps = "[2001:db8::1]:3", chief = "c:4")
  expect_snapshot(print(cluster))
  expect_length(cluster, 4)
  expect_true(cluster == cluster_spec(worker = c("a:1", "b:2"), ps = "[2001:db8::1]:3", chief = "c:4"))
  expect_false(cluster == two_workers())
  expect_named(cluster$jobs, c("chief", "worker", "ps"))
})

test_that("a large cluster prints its beginning", {
  skip_without_python()
  cluster <- cluster_spec(worker = paste0("host-", 1:300, ":2222"))
  output <- capture.output(print(cluster))
  expect_lt(length(output), 25)
  expect_match(output, "and 282 more", all = FALSE)
})

test_that("one address is a cluster of one, not a string", {
  skip_without_python()
  expect_equal(
    tf_config_json(cluster_task(cluster_spec(worker = "a:1"), "worker", 0)),
    '{"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}}'
  )
})

test_that("tasks know their address, and whole doubles are indices", {
  skip_without_python()
  task <- cluster_task(two_workers(), "worker", 1)
  expect_equal(task$address, "10.0.0.2:2222")
  expect_identical(task$index, 1L)
  expect_false(task$is_chief)
  expect_snapshot(print(task))
  expect_snapshot(print(cluster_task(two_workers(), "worker", 0L)))
})

test_that("a bad cluster is an error with every finding", {
  skip_without_python()
  error <- expect_kind(cluster_spec(worker = c("a:1", "a:1", "b", "c:0")), "cluster")
  expect_s3_class(error, "tfmuster_error")
  expect_gte(length(error$findings), 3)
  expect_setequal(error$kind, "cluster")
  expect_snapshot(cluster_spec(worker = c("a:1", "a:1")), error = TRUE)
  expect_snapshot(cluster_spec(worker = "{1 + 1}:{stop()}"), error = TRUE)
  expect_kind(cluster_spec(worker = NA), "cluster")
  expect_kind(cluster_spec(worker = c("a:1", NA)), "cluster")
  expect_kind(cluster_spec(), "cluster")
  expect_kind(cluster_spec(worker = 1:2), "cluster")
})

test_that("a task that the cluster does not have is an error", {
  skip_without_python()
  expect_snapshot(cluster_task(two_workers(), "worker", 2), error = TRUE)
  expect_snapshot(cluster_task(two_workers(), "ps", 0), error = TRUE)
  expect_kind(cluster_task(two_workers(), "worker", 0.5), "cluster")
  expect_kind(cluster_task(two_workers(), "worker", -1), "cluster")
})

test_that("clusters come from files and from TF_CONFIG", {
  skip_without_python()
  file <- withr::local_tempfile(lines = "worker: ['10.0.0.1:2222', '10.0.0.2:2222']", fileext = ".yaml")
  expect_true(cluster_from_file(file) == two_workers())
  text <- tf_config_json(cluster_task(two_workers(), "worker", 0))
  expect_true(parse_tf_config(text)$cluster == two_workers())
  expect_kind(cluster_from_file(file.path(tempdir(), "none.yaml")), "cluster")
})

test_that("addresses without a name are the workers'", {
  skip_without_python()
  expect_true(cluster_spec(c("a:1", "b:2")) == cluster_spec(worker = c("a:1", "b:2")))
  error <- expect_kind(cluster_spec("a:1", c("b:1", "c:1")), "cluster")
  expect_equal(error$found, "c(\"b:1\", \"c:1\")")
  expect_match(error$fix, "chief = ", fixed = TRUE)
})
