// A request as code for other places.

const PYTHON_EXTRA = ["speculative"];

// What the SDK's types do not know.
const foreign = (body) =>
  "speculative" in body || (body.response_format !== undefined && body.response_format.type !== "json_schema");

export const LANGUAGES = {
  curl: (url, body) =>
    `curl ${url}/v1/chat/completions \\\n  -H 'content-type: application/json' \\\n  -d '${json(body).replaceAll("'", "'\\''")}'`,
  Python: (url, body) =>
    `import json\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${url}/v1", api_key="none")\n` +
    `body = json.loads(r'''${json(body).replaceAll("'''", "\\u0027\\u0027\\u0027")}''')\n` +
    `extra = {name: body.pop(name) for name in ${JSON.stringify(PYTHON_EXTRA)} if name in body}\n` +
    `answer = client.chat.completions.create(**body, extra_body=extra)\nprint(answer.choices[0].message.content)`,
  TypeScript: (url, body) =>
    `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${url}/v1", apiKey: "none" });\n` +
    `const answer = await client.chat.completions.create(${json(body)}` +
    `${foreign(body) ? " as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming" : ""});\n` +
    `console.log(answer.choices[0].message.content);`,
};

const json = (body) => JSON.stringify(body, null, 2);
