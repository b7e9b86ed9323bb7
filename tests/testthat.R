library(testthat)
library(tfmuster)

test_check("tfmuster")
