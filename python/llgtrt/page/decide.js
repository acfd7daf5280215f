// Typed decisions: a question about a text, and the probability of each answer as a bar.

import { $, element, percent } from "./dom.js";
import * as api from "./stream.js";

// The question as `/v1/systemone` wants it.
function question() {
  const type = $("decision_type").value;
  const instructions = $("decision_question").value.trim();
  const options = $("decision_options").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (type === "noul") return { type, instructions };
  if (type === "score") return { type, instructions, criteria: options };
  // A description may stand behind a colon.
  const pairs = options.map((line) => /^([^:]+)(?::\s*(.*))?$/.exec(line)).map((m) => [m[1].trim(), m[2] || null]);
  return { type, instructions, criteria: Object.fromEntries(pairs) };
}

// (name, probability) of each option.
function rows(told) {
  if (told.type === "noul") return [["yes", told.noul], ["no", 1 - told.noul]];
  const named = (level) => (told.type === "score" ? `${level}: ${told.legend[level]}` : level);
  return Object.entries(told.probabilities).map(([level, probability]) => [named(level), probability]);
}

function bar([name, probability]) {
  const item = element("li");
  const label = element("span", "name", name);
  const value = element("b", "", percent(probability));
  const track = element("span", "bar");
  const fill = element("span", "fill");
  fill.style.width = `${100 * probability}%`;
  track.append(fill);
  item.append(label, value, track);
  return item;
}

async function decide(event) {
  event.preventDefault();
  const place = $("decision");
  $("decide").disabled = true;
  try {
    const body = { state: $("decision_state").value, questions: { answer: question() } };
    const told = (await api.decide(body, $("key").value)).answers.answer;
    const list = element("ul", "bars");
    list.append(...rows(told).map(bar));
    const said = { choice: told.choice, score: told.score?.toFixed(2), noul: told.noul > 0.5 ? "yes" : "no" }[told.type];
    const sure = told.confidence === undefined ? "" : `, confidence ${told.confidence.toFixed(2)}`;
    place.replaceChildren(element("p", "", `${said}${sure}`), list);
  } catch (error) {
    place.replaceChildren(element("p", "error", error.message));
  } finally {
    $("decide").disabled = false;
  }
}

export function begin() {
  const dress = () => {
    $("decision_options").hidden = $("decision_options_label").hidden = $("decision_type").value === "noul";
  };
  $("decision_type").addEventListener("change", dress);
  $("decision_form").addEventListener("submit", decide);
  dress();
}
