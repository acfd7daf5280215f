// Small plots of what happened lately.

import { $ } from "./dom.js";
import * as api from "./stream.js";

const series = { rate: [], acceptance: [], queue: [] };

export function plot(name, value, format) {
  const points = series[name];
  points.push(value);
  if (points.length > 60) points.shift();
  $(name).textContent = format(value);
  const most = Math.max(...points, 1e-9);
  const path = points.map((y, x) => `${x ? "L" : "M"}${x} ${(28 - (26 * y) / most).toFixed(1)}`).join("");
  const svg = document.querySelector(`svg[data-plot=${name}]`);
  svg.setAttribute("viewBox", "0 0 60 30");
  svg.setAttribute("preserveAspectRatio", "none");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  svg.replaceChildren(line);
}

let before = null;

export async function watch() {
  try {
    const now = await api.metrics();
    const since = (name) => (before ? (now[name] ?? 0) - (before[name] ?? 0) : 0);
    const drafted = since("llgtrt_drafted_tokens_total");
    if (drafted > 0) plot("acceptance", since("llgtrt_accepted_tokens_total") / drafted, (v) => `${(100 * v).toFixed(0)} %`);
    plot("queue", now.llgtrt_waiting_requests ?? 0, (v) => v.toFixed(0));
    before = now;
  } catch {
    // The server is gone; the next look may find it again.
  }
}
