"""Small tables with the columns of the real ones, by a part of their names."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Of each column its values: a list of categories, or a range of integers or of floats.
_COLUMNS: dict[str, dict[str, Any]] = {
    "heart": {
        **{"age": (29, 77), "sex": [0, 1], "cp": (0, 4), "trestbps": (94, 200), "chol": (126, 564)},
        **{"fbs": [0, 1], "restecg": (0, 2), "thalach": (71, 202), "exang": [0, 1], "oldpeak": (0.0, 6.2)},
        **{"slope": (1, 3), "ca": (0, 3), "thal": ["fixed", "normal", "reversible"], "target": [0, 1]},
    },
    "titanic": {
        **{"survived": [0, 1], "sex": ["male", "female"], "age": (1.0, 80.0), "n_siblings_spouses": (0, 5)},
        **{"parch": (0, 4), "fare": (0.0, 512.0), "class": ["First", "Second", "Third"]},
        **{"deck": ["A", "B", "C", "unknown"], "embark_town": ["Southampton", "Cherbourg", "unknown"]},
        **{"alone": ["y", "n"]},
    },
    "abalone": {
        name: (0.05, 1.5) for name in ("Length", "Diameter", "Height", "Whole", "Shucked", "Viscera", "Shell")
    }
    | {"Age": (1, 29)},
    "petfinder": {
        **{"Type": ["Cat", "Dog"], "Age": (0, 60), "Breed1": ["Tabby", "Mixed", "Poodle"]},
        **{"Gender": ["Male", "Female"], "Color1": ["Black", "Brown"], "Color2": ["White", "No Color"]},
        **{"MaturitySize": ["Small", "Medium"], "FurLength": ["Short", "Long"], "Vaccinated": ["Yes", "No"]},
        **{
            "Sterilized": ["Yes", "No"],
            "Health": ["Healthy"],
            "Fee": (0, 300),
            "Description": ["a nice pet"],
        },
        **{"PhotoAmt": (0, 9), "AdoptionSpeed": (0, 4)},
    },
    "creditcard": {"Time": (0.0, 170000.0)}
    | {f"V{i}": (-2.0, 2.0) for i in range(1, 29)}
    | {"Amount": (0.0, 500.0), "Class": [0] * 9 + [1]},
    "iris": {
        **{"sepal_l": (4.3, 7.9), "sepal_w": (2.0, 4.4), "petal_l": (1.0, 6.9), "petal_w": (0.1, 2.5)},
        **{"species": ["Iris-setosa", "Iris-versicolor", "Iris-virginica"]},
    },
    "auto-mpg.csv": {
        **{
            "mpg": (9.0, 46.0),
            "cylinders": [4, 6, 8],
            "displacement": (68.0, 455.0),
            "horsepower": (46, 230),
        },
        **{"weight": (1600, 5100), "acceleration": (8.0, 24.0), "year": (70, 82), "origin": [1, 2, 3]},
        **{"name": ["a car", "a coupe", "a van"]},
    },
    "jh-simple": {
        **{
            "id": (1, 2000),
            "job": ["kd", "vv", "pe", "11"],
            "area": ["a", "b", "c"],
            "income": (20000, 90000),
        },
        **{"aspect": (5.0, 20.0), "subscriptions": (0, 3), "dist_healthy": (5.0, 18.0)},
        **{"save_rate": (10, 80), "dist_unhealthy": (3.0, 15.0), "age": (25, 70), "pop_dense": (0.7, 1.0)},
        **{"retail_dense": (0.2, 0.9), "crime": (0.0, 0.4), "product": ["a", "b", "c", "d", "e", "f", "g"]},
    },
    "climate": {"Date Time": ["01.01.2009 00:10:00"]}
    | {
        name: (0.0, 1000.0 if name == "p (mbar)" else 30.0)
        for name in (
            *("p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)"),
            *("VPdef (mbar)", "sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)"),
            "wd (deg)",
        )
    },
    "sunspot": {"n": (0, 3000), "Date": ["1749-01-31"], "Monthly Mean Total Sunspot Number": (0.0, 300.0)},
    "daily-min-temperatures": {"Date": ["1981-01-01"], "Temp": (0.0, 26.0)},
    "bbc-text": {
        **{"category": ["tech", "business", "sport", "entertainment", "politics"]},
        **{"text": ["shares of the firm rose", "a great goal in the match", "the film won a prize"]},
    },
    "ratings": {"userId": (1, 60), "movieId": (1, 90), "rating": (0.5, 5.0), "timestamp": (1, 1000)},
    "movies": {
        "movieId": (1, 90),
        "title": ["One (1990)", "Two (2001)"],
        "genres": ["Drama", "Comedy|Drama"],
    },
    "bank": {"age": (18, 90), "job": ["admin.", "technician"], "balance": (0, 9000), "y": ["yes", "no"]},
    "pima-indians": {
        **{"pregnant": (0, 15), "glucose": (60, 199), "pressure": (40, 110), "triceps": (7, 60)},
        **{
            "insulin": (15, 500),
            "mass": (18.0, 60.0),
            "pedigree": (0.1, 2.0),
            "age": (21, 80),
            "diabetes": [0, 1],
        },
    },
    "winequality": {
        **{"fixed acidity": (4.0, 15.0), "volatile acidity": (0.1, 1.5), "citric acid": (0.0, 1.0)},
        **{"residual sugar": (0.9, 15.0), "chlorides": (0.01, 0.6), "free sulfur dioxide": (1.0, 72.0)},
        **{"total sulfur dioxide": (6.0, 289.0), "density": (0.99, 1.0), "pH": (2.7, 4.0)},
        **{"sulphates": (0.3, 2.0), "alcohol": (8.0, 15.0), "quality": (3, 8)},
    },
    "insurance": {
        **{"age": (18, 64), "sex": ["male", "female"], "bmi": (16.0, 53.0), "children": (0, 5)},
        **{"smoker": ["yes", "no"], "region": ["southwest", "southeast", "northwest"], "charges": (1e3, 6e4)},
    },
}
_ROWS = {"climate": 6000, "sunspot": 3235, "daily-min": 3650, "ratings": 3000, "creditcard": 3000}


def table_of(name: str) -> str | None:
    """Return the CSV text of the table whose name is part of a file's name or URL, or None."""
    columns = next((value for key, value in _COLUMNS.items() if key in name.lower()), None)
    if columns is None:
        return None
    rows = next((count for key, count in _ROWS.items() if key in name.lower()), 400)
    rng = np.random.default_rng(4)
    drawn = [_drawn(rng, values, rows) for values in columns.values()]
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*drawn, strict=True))]
    without_header = "abalone" in name and "train" not in name
    return "\n".join(lines[1:] if without_header else lines) + "\n"


def _drawn(rng: np.random.Generator, values: Any, rows: int) -> list[Any]:
    if isinstance(values, list):
        return [values[i] for i in rng.integers(0, len(values), rows)]
    low, high = values
    if isinstance(low, int):
        return [int(value) for value in rng.integers(low, high + 1, rows)]
    return [round(float(value), 4) for value in rng.uniform(low, high, rows)]
