"""R functions on other machines, which share no files with the session that launches them."""

from __future__ import annotations

import pytest

from support.hosts import Network

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("tfmuster_in_r")]


@pytest.mark.parametrize("run_dir", ["NULL", "file.path(tempdir(), 'elsewhere')"])
def test_a_function_goes_to_other_hosts_and_its_values_come_back(network: Network, run_dir: str) -> None:
    code = (
        "library(tfmuster); offset <- 40; "
        "f <- function(x) list(unname(Sys.info()['nodename']), offset + x); "
        f"values <- launch(f, 2, on = on_ssh(c('node1', 'node2')), quiet = TRUE, run_dir = {run_dir}); "
        "cat('got', unlist(values))"
    )
    assert network.run_here("Rscript", "-e", code).endswith("got node1 42 node2 42")


def test_an_error_on_another_host_has_its_r_condition_as_parent(network: Network) -> None:
    code = (
        "library(tfmuster); "
        "fail <- function() stop('no luck'); "
        "e <- tryCatch(launch(fail, on = on_ssh('node1'), quiet = TRUE), error = identity); "
        "cat('caught', e$task, conditionMessage(e$parent))"
    )
    assert network.run_here("Rscript", "-e", code).endswith("caught worker 0 no luck")


def test_values_of_other_hosts_are_data(network: Network) -> None:
    code = (
        "library(tfmuster); options(warn = 1); "
        "run <- function(f, ...) launch(f, on = on_ssh('node1', ...), quiet = TRUE); "
        "data <- run(function() { warning('careful'); "
        "list(d = data.frame(x = 1:2, y = factor(c('a', 'b')))) }); "
        "cat('got', nrow(data[[1]]$d), levels(data[[1]]$d$y), '\\n'); "
        "e <- tryCatch(run(function() function(x) x), error = identity); "
        "cat('refused', grepl('must return data', conditionMessage(e)), "
        "grepl('trust_hosts', conditionMessage(e)), '\\n'); "
        "cat('trusted', run(function() function(x) x + 1, trust_hosts = TRUE)[[1]](2), '\\n')"
    )
    lines = [line.strip() for line in network.run_here("Rscript", "-e", code, limit=110).splitlines()]
    assert [line for line in lines if line.startswith(("got", "refused", "trusted"))] == [
        "got 2 a b",
        "refused TRUE TRUE",
        "trusted 3",
    ]
