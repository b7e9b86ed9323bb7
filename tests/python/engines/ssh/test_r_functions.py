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
        f"values <- launch(f, 2, hosts = c('node1', 'node2'), quiet = TRUE, run_dir = {run_dir}); "
        "cat('got', unlist(values))"
    )
    assert network.run_here("Rscript", "-e", code).endswith("got node1 42 node2 42")


def test_an_error_on_another_host_has_its_r_condition_as_parent(network: Network) -> None:
    code = (
        "library(tfmuster); "
        "e <- tryCatch(launch(function() stop('no luck'), hosts = 'node1', quiet = TRUE), error = identity); "
        "cat('caught', e$task, conditionMessage(e$parent))"
    )
    assert network.run_here("Rscript", "-e", code).endswith("caught worker 0 no luck")
