#!/usr/bin/env python3
"""Compares the service with its own description, by schemathesis: requests that the description allows or forbids.

    cargo build -p delay-queue-service
    durable/service/tests/openapi.py target/debug/delay-queue-service                         # a short run
    durable/service/tests/openapi.py target/debug/delay-queue-service --max-examples 100      # all of it, or other options of schemathesis

Schemathesis comes from the package registry, into a folder beside the program. Ends with 3 if it cannot be had.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

VERSION = "schemathesis==4.32.5"
TOKEN = "a-token-for-the-description-0123456789"

# Callbacks lead to a port of loopback where nobody listens: so jobs are stored, called and become dead letters, and no request leaves the machine.
HOOKS = '''
import re
import schemathesis

ADDRESS = re.compile("https?://[A-Za-z0-9][A-Za-z0-9._-]*(:[1-9][0-9]{0,3})?([/?][A-Za-z0-9._~:/?@!$&'()*+,;=-]*)?")

def lead(job):
    if isinstance(job, dict) and isinstance(job.get("callback"), str) and ADDRESS.fullmatch(job["callback"]):
        job["callback"] = "http://127.0.0.1:9/"

@schemathesis.hook
def map_body(context, body):
    for job in body if isinstance(body, list) else [body]:
        lead(job)
    return body
'''


def install(folder):
    """The program, or None and a line that says so."""
    program = folder / "bin" / "schemathesis"
    if program.exists():
        return program
    commands = [[sys.executable, "-m", "venv", folder], [folder / "bin" / "pip", "install", "-q", VERSION]]
    for command in commands:
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode != 0:
            said = (made.stderr or made.stdout).strip().splitlines()
            print(f"schemathesis cannot be installed: {said[-1] if said else command}")
            return None
    return program


def main():
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} PROGRAM [OPTIONS OF SCHEMATHESIS]")
    service = pathlib.Path(sys.argv[1]).resolve()
    program = install(service.parent / VERSION.replace("==", "-"))
    if program is None:
        sys.exit(3)
    with tempfile.TemporaryDirectory() as folder:
        tokens, hooks = pathlib.Path(folder, "tokens"), pathlib.Path(folder, "hooks.py")
        tokens.write_text(TOKEN)
        hooks.write_text(HOOKS)
        command = [service, "--listen", "127.0.0.1:0", "--file", f"{folder}/jobs.redb", "--token-file", tokens, "--allow-host", "127.0.0.1",
                   "--rate", "1000", "--attempts", "2", "--backoff", "10", "100", "--log", "error"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                address = process.stdout.readline().removeprefix("open ").strip()
                options = sys.argv[2:] or ["--phases", "coverage,stateful", "--max-examples", "5", "--seed", "1"]
                command = [program, "run", f"{address}openapi.json", "--header", f"Authorization: Bearer {TOKEN}", "--checks", "all", *options]
                found = subprocess.run(command, cwd=folder, env=os.environ | {"SCHEMATHESIS_HOOKS": str(hooks)}, check=False)
                assert process.poll() is None, "the service has ended"
            finally:
                process.kill()
    sys.exit(found.returncode)


main()
