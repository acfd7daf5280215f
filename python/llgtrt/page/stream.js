// The API as the page needs it: one streamed chat, the grammar check, the metrics.

export class ApiError extends Error {}

const headers = (key) => ({
  "content-type": "application/json",
  ...(key ? { authorization: `Bearer ${key}` } : {}),
});

async function refusal(response) {
  const text = await response.text();
  try {
    return new ApiError(JSON.parse(text).error.message);
  } catch {
    return new ApiError(`${response.status} ${text.slice(0, 200)}`);
  }
}

// Yields the chunks of a streamed chat; ends with an ApiError where the server says so.
export async function* chat(body, key, signal) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST", headers: headers(key), body: JSON.stringify(body), signal,
  });
  if (!response.ok) throw await refusal(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (!event.startsWith("data: ") || event === "data: [DONE]") continue;
      const chunk = JSON.parse(event.slice(6));
      if (chunk.error) throw new ApiError(chunk.error.message);
      yield chunk;
    }
  }
}

async function post(path, body, key) {
  const response = await fetch(path, { method: "POST", headers: headers(key), body: JSON.stringify(body) });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// What POST /v1/grammar/check says of a constraint: {ok, pointer, keyword, reason}.
export const check = (format, key) => post("/v1/grammar/check", { response_format: format }, key);

export const decide = (body, key) => post("/v1/systemone", body, key);

export async function model(key) {
  const response = await fetch("/v1/models", { headers: headers(key) });
  if (!response.ok) throw await refusal(response);
  return (await response.json()).data[0].id;
}

export const ready = async () => (await fetch("/ready")).json();

// Samples of the metrics by name, labels left out: those of one name are added up.
export async function metrics() {
  const sums = {};
  for (const line of (await (await fetch("/metrics")).text()).split("\n")) {
    const match = /^([a-z_]+)(?:\{[^}]*\})? ([-+.\deE]+)$/.exec(line);
    if (match) sums[match[1]] = (sums[match[1]] ?? 0) + Number(match[2]);
  }
  return sums;
}
