# The price of a house: a data frame with numbers and a factor.
#
#   Rscript examples/gallery/tabular.R                    # one process
#   tfmuster launch -n 2 examples/gallery/tabular.R       # two workers
library(tfmuster)

strategy <- strategy(if (is.null(current_task())) "default" else "multi_worker_mirrored")

set.seed(7)
houses <- data.frame(
  area = runif(1000, 40, 250),
  rooms = sample(1:8, 1000, replace = TRUE),
  age = runif(1000, 0, 100),
  district = factor(sample(c("north", "river", "station"), 1000, replace = TRUE))
)
price <- with(houses, 2 * area + 15 * rooms - 0.5 * age + c(0, 80, -30)[district] + rnorm(1000, sd = 10))

# A factor becomes columns of 0 and 1; every column gets mean 0 and standard deviation 1.
inputs <- scale(model.matrix(~ . - 1, houses))
unseen <- 801:1000

keras <- reticulate::import("keras")
keras$utils$set_random_seed(1L)
with(strategy$scope(), {
  model <- keras$Sequential(list(
    keras$Input(list(ncol(inputs))),
    keras$layers$Dense(32L, activation = "tanh"),
    keras$layers$Dense(1L)
  ))
  compile(model, optimizer = keras$optimizers$Adam(0.05), loss = "mse", metrics = "mae")
})

history <- fit(
  model, inputs[-unseen, ], price[-unseen] / 100,
  batch_size = 50, epochs = 8, verbose = FALSE
)
found <- evaluate(model, inputs[unseen, ], price[unseen] / 100)
loss <- tail(history$value[history$metric == "loss"], 1)
cat(sprintf("loss %.4f, on unseen houses %.4f\n", loss, found$loss))
