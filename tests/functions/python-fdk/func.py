"""The cases of python-hello by the official FDK for Python, which lies beside this file."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fdk  # noqa: E402
from fdk import customer_code, response  # noqa: E402

INSTANCE = os.urandom(8).hex()  # one container is told from another by it


def handler(ctx, data=None):
    headers = {name.lower(): value for name, value in ctx.Headers().items()}
    body, case = data.getvalue(), headers.get("case")
    if case == "hello":
        said = {"message": "Hello " + json.loads(body)["name"], "instance": INSTANCE}
        return response.Response(ctx, json.dumps(said), {"Content-Type": "application/json"})
    if case == "error":
        raise ValueError("went wrong")
    return response.Response(ctx, body, {"Content-Type": headers.get("content-type")})


if __name__ == "__main__":
    fdk.handle(customer_code.Function(__file__, entrypoint="handler"))
