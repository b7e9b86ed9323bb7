# Training on this machine alone, to see that everything is in place: a small convolutional network,
# batches of 64, 3 epochs of 5 steps.
#
#   Rscript examples/local_training.R [DATASET]
#
# DATASET: nothing for MNIST, "synthetic" for drawn digits, or a path.
library(tfmuster)

arguments <- commandArgs(trailingOnly = TRUE)

result <- train_mnist("cnn", dataset = if (length(arguments)) arguments[[1]])
print(result)
