"""Gives each request of schemathesis one of several signed-in users, so that no user's limits hide answers.

Half of the ids in paths and bodies become ones that the user owns: made-up ids end in 404 and test little more.
Users are made by run.mjs; one that an operation signed out signs in again.
"""

import ast
import itertools
import json
import os
import re

import requests
import schemathesis

BASE = os.environ["CONTRACT_BASE"]
USERS = json.loads(os.environ["CONTRACT_USERS"])
turns = itertools.count()

# The parser of uWebSockets.js hangs up without an answer on other header names: see test/http/h1.test.ts.
HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")

parse_once = ast.parse


def parse_again(*args, **kwargs):
    """CPython 3.11 counts the depth of its parser for all threads together, and trips over that now and then."""
    for _ in range(10):
        try:
            return parse_once(*args, **kwargs)
        except SystemError:
            continue
    return parse_once(*args, **kwargs)


ast.parse = parse_again


@schemathesis.hook
def before_call(context, case, kwargs):
    for name in [name for name in case.headers if not HEADER_NAME.fullmatch(name)]:
        del case.headers[name]
    turn = next(turns)
    user = USERS[turn % len(USERS)]
    case.headers["Cookie"] = user["cookie"]
    case.headers["X-Contract-User"] = str(turn % len(USERS))
    # In turns of their own, so that each user does both.
    if (turn // len(USERS)) % 2:
        return
    for name in case.path_parameters:
        if name in user["known"]:
            case.path_parameters[name] = user["known"][name]
    if isinstance(case.body, dict) and isinstance(case.body.get("project_id"), str):
        case.body["project_id"] = user["known"]["projectId"]


@schemathesis.hook
def after_call(context, case, response):
    sent = response.request.headers.get("X-Contract-User")
    if sent is None:
        return
    ended = case.method.upper() == "DELETE" or case.path.endswith("/signout")
    if response.status_code == 401 or (ended and response.status_code < 300):
        renew(USERS[int(sent)])


def renew(user):
    """Signs in again, and makes a project when there is none."""
    session = requests.Session()
    answer = session.post(f"{BASE}/api/user/signin", json=user["credentials"], timeout=10)
    if answer.status_code == 401:
        signup = {**user["credentials"], "name": "Contract"}
        answer = session.post(f"{BASE}/api/user/signup", json=signup, timeout=10)
    if answer.status_code not in (200, 201):
        return
    user["cookie"] = answer.headers["Set-Cookie"].split(";")[0]
    headers = {"Cookie": user["cookie"]}
    projects = requests.get(f"{BASE}/api/projects", headers=headers, timeout=10).json()["projects"]
    if not projects:
        body = {"name": "Contract"}
        projects = [requests.post(f"{BASE}/api/projects", json=body, headers=headers, timeout=10).json()["project"]]
    user["known"]["projectId"] = projects[0]["id"]


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Python's expressions have no Unicode properties: test/http/bad-input.test.ts looks at such patterns."""
    drop_patterns(raw_schema)


def drop_patterns(schema):
    if isinstance(schema, list):
        for one in schema:
            drop_patterns(one)
    elif isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str) and "\\p{" in schema["pattern"]:
            del schema["pattern"]
        for one in schema.values():
            drop_patterns(one)
