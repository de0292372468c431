"""fdglm predict: what a result says about the samples of a file."""

from __future__ import annotations

import json
from typing import Any

import click

from fdglm_cli.options import check_outputs


@click.command("predict")
@click.argument("result", metavar="RESULT.h5")
@click.argument("data", metavar="FILE.h5[::/GROUP]")
@click.option("--which", type=click.Choice(["average", "last", "better"]), default="average", show_default=True)
@click.option("--x", "x", default="X", show_default=True, metavar="NAME", help="Dataset of the design.")
@click.option("--y", "y", default="y", show_default=True, metavar="NAME", help="Dataset of the response.")
@click.option("--out", type=click.Path(), metavar="FILE", help="Write the predictions: HDF5 (.h5) or CSV.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; predictions only without --out.")
@click.option("--allow-filters", is_flag=True, help="Let HDF5 load filter plugins to read the file.")
def command(**given: Any) -> None:
    """Predictions of RESULT for the samples of FILE, and their loss where the file has responses.

    The linear predictor x'theta is given and, for logistic loss, the probability of the label 1; for poisson, the rate.
    Without --out the predictions are printed, one a line.
    """
    from fdglm_fast.files import split_address
    from fdglm_fast.predict import predict, write_predictions

    if given["out"]:
        check_outputs([given["out"]], [given["result"], split_address(given["data"])[0]], given["force"])
    found = predict(
        given["result"],
        given["data"],
        given["which"],
        x=given["x"],
        y=given["y"],
        allow_filters=given["allow_filters"],
    )
    if given["out"]:
        write_predictions(given["out"], found, given["force"])
    if given["as_json"]:
        click.echo(json.dumps(found.as_json(with_values=not given["out"]), allow_nan=False))
        return
    if not given["out"]:
        for value in found.values:
            click.echo(repr(float(value)))
    click.echo(found.sentence(), err=not given["out"])
