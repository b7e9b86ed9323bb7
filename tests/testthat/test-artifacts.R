test_that("a model survives a raw vector, base64 text and a file", {
  skip_without_python(tensorflow = TRUE)
  model <- mnist_model("softmax", seed = 1)
  bytes <- model_to_bytes(model)
  expect_type(bytes, "raw")
  expect_equal(bytes[1:4], as.raw(c(0x50, 0x4b, 0x03, 0x04)))
  expect_equal(model_from_bytes(bytes)$get_weights(), model$get_weights())

  file <- withr::local_tempfile(fileext = ".keras")
  expect_equal(normalizePath(model_to_file(model_from_bytes(bytes), file)), normalizePath(file))
  expect_equal(model_from_bytes(readBin(file, "raw", 1e7))$get_weights(), model$get_weights())

  base64 <- reticulate::import("base64")
  text <- base64$b64encode(reticulate::r_to_py(bytes))$decode()
  expect_equal(model_from_bytes(text)$get_weights(), model$get_weights())
  expect_equal(model_from_bytes(model_to_bytes(model, ".h5"))$get_weights(), model$get_weights())
})

test_that("a saved model is loaded by plain Keras", {
  skip_without_python(tensorflow = TRUE)
  model <- mnist_model("softmax", seed = 1)
  file <- model_to_file(model, withr::local_tempfile(fileext = ".keras"))
  expect_type(file, "character")
  loaded <- reticulate::import("keras")$models$load_model(file)
  expect_equal(loaded$get_weights(), model$get_weights())
})

test_that("what is no model is refused", {
  skip_without_python(tensorflow = TRUE)
  expect_equal(expect_kind(model_from_bytes(as.raw(1:10)), "model")$reason, "not-a-model")
  expect_snapshot(model_from_bytes("no base64!"), error = TRUE)
  expect_equal(expect_kind(model_to_file(mnist_model("softmax"), "model.txt"), "model")$reason, "format")
  expect_equal(expect_kind(model_to_bytes(mnist_model("softmax"), ".onnx"), "model")$reason, "format")
  error <- expect_kind(model_to_file(5, "model.keras"), "model")
  expect_equal(error[c("reason", "found")], list(
    reason = "not-a-model", found = "an object of class numeric"
  ))
  expect_equal(expect_kind(model_to_bytes(NULL), "model")$found, "an object of class NULL")
})
