"""Has REDbot judge answers: requests on standard input as JSON, what it says of each on standard output."""
import json
import sys
from configparser import ConfigParser

import thor
from redbot.resource import HttpResource

parser = ConfigParser()
parser.read_dict({"redbot": {"enable_local_access": "True"}})
waiting = json.load(sys.stdin)
judgements = []


def judge_next():
    # One loop for all: a second one would wait for the connections that the first has let go of.
    if not waiting:
        thor.stop()
        return
    asked = waiting.pop(0)
    resource = HttpResource(parser["redbot"])
    resource.set_request(asked["url"], headers=list(asked["headers"].items()))

    def done():
        judgements.append(describe(resource))
        thor.schedule(0, judge_next)

    resource.once("check_done", done)
    resource.check()


def describe(resource):
    notes = [
        {"level": note.level.value if note.level else "none", "summary": str(note.summary)}
        for above in resource.response.notes
        for note in [above, *above.subnotes]
    ]
    return {
        "status": resource.response.status_code,
        "isComplete": resource.response.complete,
        "ranges": resource.partial_support,
        "tags": resource.inm_support,
        "dates": resource.ims_support,
        "notes": notes,
    }


thor.schedule(0, judge_next)
thor.run()
json.dump(judgements, sys.stdout)
