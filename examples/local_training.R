# Train on this machine alone, to see that everything is in place: a small convolutional network, half a
# minute, to 97 % on MNIST.
#
#   Rscript examples/local_training.R [DATASET]
#
# DATASET: nothing for MNIST, "synthetic" for drawn digits, or a path. With `recipe = "document"`, the model
# has the 3 epochs of 5 steps of the example that it is from.
library(tfmuster)

arguments <- commandArgs(trailingOnly = TRUE)

result <- train_mnist("cnn", dataset = if (length(arguments)) arguments[[1]])
print(result)
