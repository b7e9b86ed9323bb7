# Document 000: the distributed program in R, for a machine without the package keras3: Python's Keras by reticulate.
tf <- reticulate::import("tensorflow")
keras <- tf$keras

strategy <- tf$distribute$experimental$MultiWorkerMirroredStrategy()

num_workers <- 4L
batch_size <- 64L * num_workers

mnist <- dataset_mnist()
x_train <- mnist$train$x
y_train <- mnist$train$y

x_train <- reticulate::array_reshape(x_train, c(nrow(x_train), 28, 28, 1))
x_train <- x_train / 255

with (strategy$scope(), {
  model <- keras$Sequential(list(
    keras$layers$Conv2D(filters = 32L, kernel_size = 3L, activation = 'relu', input_shape = c(28L, 28L, 1L)),
    keras$layers$MaxPooling2D(),
    keras$layers$Flatten(),
    keras$layers$Dense(units = 64L, activation = 'relu'),
    keras$layers$Dense(units = 10L)
  ))

  model$compile(
    loss = tf$keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE),
    optimizer = tf$keras$optimizers$SGD(learning_rate = 0.001),
    metrics = list('accuracy'))
})

model$fit(x_train, y_train, batch_size = batch_size, epochs = 3L, steps_per_epoch = 5L)
