"""A session of OpenAI's Python SDK over a WebSocket: tools in parallel, a compaction, a cut, and the next turn. The argument is the base URL."""

import sys

from openai import OpenAI

client = OpenAI(api_key="sk-demo", base_url=sys.argv[1])
MODEL = "demo-chat"
TOOLS = [
    {
        "type": "function",
        "name": name,
        "description": f"Tells the {what}.",
        "strict": False,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    for name, what in [("get_weather", "weather"), ("get_population", "population")]
]
passed = 0


def check(holds, what, detail):
    global passed
    if not holds:
        sys.exit(f"{what}: {detail}")
    passed += 1


def turn(connection, **request):
    connection.response.create(model=MODEL, **request)
    for event in connection:
        if event.type in ("response.completed", "response.failed", "response.incomplete", "error"):
            return getattr(event, "response", event)


with client.responses.connect() as connection:
    question = "What are the weather and the population of Oslo?"
    asked = turn(connection, input=question, tools=TOOLS)
    calls = [item for item in asked.output if item.type == "function_call"]
    check(sorted(call.name for call in calls) == ["get_population", "get_weather"], "tools in parallel", asked)
    results = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"{call.name} is fine"} for call in calls
    ]
    told = turn(connection, input=results, tools=TOOLS, previous_response_id=asked.id)
    check("get_weather is fine" in told.output_text, "the answer behind the tools", told)
    trigger = [{"type": "compaction_trigger"}]
    compacted = turn(connection, input=trigger, tools=TOOLS, previous_response_id=told.id)
    check([item.type for item in compacted.output] == ["compaction"], "the compaction", compacted)
    item = compacted.output[0].model_dump(exclude_none=True)
    on = turn(connection, input=[item, {"role": "user", "content": "Go on."}], store=False)
    check(on.output_text.endswith("Go on."), "the turn behind the compaction", on)
    unknown = turn(connection, input="Go on.", previous_response_id="resp_none")
    check(unknown.type == "error" and unknown.error.code == "previous_response_not_found", "an error", unknown)
    connection.response.create(model=MODEL, input="/delay 50 /repeat 500")
    for event in connection:
        if event.type == "response.output_text.delta":
            break

with client.responses.connect() as connection:
    after = turn(connection, input="And now?", previous_response_id=told.id)
    check(after.status == "completed" and after.output_text == "You said: And now?", "the turn behind the cut", after)

print(f"openai-python: {passed} of 6")
