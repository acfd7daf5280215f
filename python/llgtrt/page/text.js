// What a model wrote, formatted: Markdown to HTML by marked, and only harmless elements of that by DOMPurify.

import { marked } from "./vendor/marked.js";
import "./vendor/purify.js";

const TAGS = [
  ..."a b blockquote br code dd del dl dt em h1 h2 h3 h4 h5 h6 hr i li ol p pre s strong sub sup".split(" "),
  ..."table tbody td th thead tr ul".split(" "),
];
const purifier = globalThis.DOMPurify;
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("rel", "noopener noreferrer");
    node.setAttribute("target", "_blank");
  }
});

// HTML is shown as text, but for line breaks, which models write into tables.
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
marked.use({ renderer: { html: ({ text }) => (/^<br *\/?>$/i.test(text.trim()) ? "<br>" : escaped(text)) } });

// JSON is shown as what it is.
function source(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value === "object" && value !== null) return "```json\n" + JSON.stringify(value, null, 2) + "\n```";
  } catch {
    // Anything else is Markdown.
  }
  return text;
}

export function formatted(text) {
  const html = marked.parse(source(text), { async: false, breaks: true, gfm: true });
  return purifier.sanitize(html, { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "title", "start"], RETURN_DOM_FRAGMENT: true });
}
