"""Asks the demo pair for JSON in this process, whose processor an emulator makes (launch/check-wheel.sh).

`emulated.py SITE-PACKAGES`: of the environment that the wheel is installed in.
"""

from __future__ import annotations

import json
import sys

sys.path.insert(0, sys.argv[1])

from llgtrt import LLM, SamplingParams, StructuredOutputsParams, demo

SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}

target, draft = demo.pair()
with LLM(target, speculative_model=draft) as llm:
    sampling = SamplingParams(max_tokens=40, structured_outputs=StructuredOutputsParams(json=SCHEMA))
    question = {"role": "user", "content": "The badge number is 42.\nGive me JSON with number."}
    text = llm.chat([question], sampling, use_tqdm=False)[0].outputs[0].text
print(text)
if not isinstance(json.loads(text)["number"], int):
    sys.exit("the answer is not what the schema asks for")
